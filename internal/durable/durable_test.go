package durable_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/durable"
)

// A file is replaced atomically. A reader of the old file can read it to its end. No other file is left.
func TestReplace(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, durable.Replace(path, []byte("one")))
	old, err := os.Open(path)
	require.NoError(t, err)

	defer old.Close()

	require.NoError(t, durable.Replace(path, []byte("two")))

	read := make([]byte, 4)
	n, err := old.Read(read)
	require.NoError(t, err)
	require.Equal(t, "one", string(read[:n]))

	now, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "two", string(now))

	entries, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, entries, 1)
}

// A file that cannot be replaced stays unchanged, and no other file is left.
func TestReplaceFails(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(folder, "taken"), 0o700))
	require.Error(t, durable.Replace(filepath.Join(folder, "taken"), []byte("x")))
	require.ErrorIs(t, durable.Replace(filepath.Join(folder, "none", "file"), []byte("x")), os.ErrNotExist)
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	require.ErrorIs(t, durable.SyncFolder(filepath.Join(folder, "none")), os.ErrNotExist)
}
