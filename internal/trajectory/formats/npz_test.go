package formats_test

import (
	"archive/zip"
	"bytes"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/testkit/pyclient"
	"github.com/rolloutd/rolloutd/internal/trajectory/formats"
)

// numpy reads the written types and values, including empty arrays and arrays of several chunks.
func TestNumpyReadsAnArchive(t *testing.T) {
	t.Parallel()
	python := pyclient.Interpreter(t, pyclient.Trainer())

	long := make([]int32, 100_000)
	for i := range long {
		long[i] = int32(i) - 50_000
	}

	path := filepath.Join(t.TempDir(), "a.npz")
	file, err := os.Create(path)
	require.NoError(t, err)

	w := formats.NewNPZWriter(file)
	require.NoError(t, formats.AddArray(w, "flags", []bool{true, false, true}))
	require.NoError(t, formats.AddArray(w, "long", long))
	require.NoError(t, formats.AddArray(w, "wide", []int64{math.MinInt64, 0, math.MaxInt64}))
	require.NoError(t, formats.AddArray(w, "real", []float64{-0.1, 0, 5e-324, math.Inf(-1)}))
	require.NoError(t, formats.AddArray(w, "empty", []float64(nil)))
	require.NoError(t, formats.AddStrings(w, "words", []string{"", "agent", "日本\U0001F600", "b\xffd"}))
	require.NoError(t, formats.AddStrings(w, "no_words", nil))
	require.NoError(t, w.Close())
	require.NoError(t, file.Close())
	python.Run(t, "testdata/read.py", path)
}

// The values of each entry are aligned, regardless of the length of the numbers in the header.
func TestValuesAreAligned(t *testing.T) {
	t.Parallel()

	for _, n := range []int{0, 9, 10, 99, 100, 12345, 1000000} {
		var out bytes.Buffer

		w := formats.NewNPZWriter(&out)
		require.NoError(t, formats.AddArray(w, "a", make([]bool, n)))
		require.NoError(t, w.Close())

		archive, err := zip.NewReader(bytes.NewReader(out.Bytes()), int64(out.Len()))
		require.NoError(t, err)
		entry, err := archive.File[0].Open()
		require.NoError(t, err)
		text, err := io.ReadAll(entry)
		require.NoError(t, err)
		require.Zero(t, (len(text)-n)%64, "%d values", n)
		require.Equal(t, byte('\n'), text[len(text)-n-1])
	}
}

func TestFailedWritesAreReported(t *testing.T) {
	t.Parallel()

	w := formats.NewNPZWriter(full{})
	require.ErrorIs(t, formats.AddArray(w, "a", make([]int64, 1<<20)), errFull)
	require.ErrorIs(t, formats.NewNPZWriter(full{}).Close(), errFull)
}

var errFull = errors.New("full")

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }
