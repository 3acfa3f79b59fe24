package trace_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/trace"
	"github.com/rolloutd/rolloutd/internal/trajectory"
)

// Opening a segment with any content neither panics nor fails. The listed records can be read, and opening
// the segment again gives the same records.
func FuzzOpen(f *testing.F) {
	dir := f.TempDir()
	s, err := trace.Open(dir, trace.Options{})
	require.NoError(f, err)

	l := s.Log("k")
	require.NoError(f, l.Append(record(1, "a")))
	require.NoError(f, l.Delivered(1))
	require.NoError(f, l.Append(longRecord(2, 1)))
	require.NoError(f, l.Append(longRecord(3, 2)))
	require.NoError(f, s.Close())
	raw, err := os.ReadFile(segments(f, dir)[0])
	require.NoError(f, err)
	f.Add(raw)
	f.Add(raw[:len(raw)-3])
	f.Add(bytes.Repeat([]byte{0}, 64))
	f.Add([]byte{})

	f.Fuzz(func(t *testing.T, raw []byte) {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, firstSegment), raw, 0o600))
		s, err := trace.Open(dir, unsynced())
		require.NoError(t, err)

		l := s.Log("k")
		require.NoError(t, trajectory.Export(l, io.Discard, trajectory.ExportOptions{}))
		entries := l.Entries()
		require.NoError(t, l.Append(record(7, "z")))
		require.NoError(t, s.Close())

		again, err := trace.Open(dir, unsynced())
		require.NoError(t, err)
		require.Len(t, again.Log("k").Entries(), len(entries)+1)
		require.NoError(t, again.Close())
	})
}
