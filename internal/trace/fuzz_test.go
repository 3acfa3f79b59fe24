package trace_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/trace"
)

// Whatever lies in the file, opening it neither panics nor fails, what it then lists can be read, and a second opening
// finds the same.
func FuzzOpen(f *testing.F) {
	path := filepath.Join(f.TempDir(), "seed.log")
	l, err := trace.Open(path, trace.Options{})
	require.NoError(f, err)
	require.NoError(f, l.Append(record(1, "a")))
	require.NoError(f, l.Delivered(1))
	require.NoError(f, l.Append(record(2, "b")))
	require.NoError(f, l.Close())
	raw, err := os.ReadFile(path)
	require.NoError(f, err)
	f.Add(raw)
	f.Add(raw[:len(raw)-3])
	f.Add(bytes.Repeat([]byte{0}, 64))
	f.Add([]byte{})

	noSync := trace.Options{Sync: func(*os.File) error { return nil }}
	f.Fuzz(func(t *testing.T, raw []byte) {
		path := filepath.Join(t.TempDir(), "trace.log")
		require.NoError(t, os.WriteFile(path, raw, 0o600))
		l, err := trace.Open(path, noSync)
		require.NoError(t, err)
		require.NoError(t, l.Export(io.Discard))
		entries := l.Entries()
		require.NoError(t, l.Append(record(7, "z")))
		require.NoError(t, l.Close())
		again, err := trace.Open(path, noSync)
		require.NoError(t, err)
		require.Len(t, again.Entries(), len(entries)+1)
		require.NoError(t, again.Close())
	})
}
