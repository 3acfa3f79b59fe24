package store_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/store"
)

// After a power failure a blob exists completely or not at all: its bytes are durable before it has its
// name, and its name before Put returns.
func TestPutIsDurable(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	key := store.AttemptKey("r1", 1, store.Home)

	var synced []string

	s.OnSync(func(f *os.File) error {
		info, err := f.Stat()
		require.NoError(t, err)

		if info.IsDir() {
			require.FileExists(t, filepath.Join(dir, key))

			synced = append(synced, "folder")

			return nil
		}

		require.Equal(t, int64(4), info.Size())
		require.NoFileExists(t, filepath.Join(dir, key))

		synced = append(synced, "file")

		return nil
	})
	_, err := s.PutBytes(t.Context(), key, []byte("home"))
	require.NoError(t, err)
	require.Equal(t, []string{"file", "folder"}, synced)
	require.NoError(t, store.Sessions{Store: s}.Save(t.Context(), "s1", []byte("{}")))
	require.Len(t, synced, 2, "sessions are not worth it")
}

// A failed sync stores no blob, and Put can be retried.
func TestPutThatCannotBeSynced(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	s.OnSync(func(*os.File) error { return &fs.PathError{Op: "sync", Err: unix.ENOSPC} })

	key := store.AttemptKey("r1", 1, store.Home)
	_, err := s.PutBytes(t.Context(), key, []byte("home"))
	require.Equal(t, fault.Unavailable, fault.KindOf(err))
	there, err := s.Exists(t.Context(), key)
	require.NoError(t, err)
	require.False(t, there)

	left, err := os.ReadDir(filepath.Dir(filepath.Join(dir, key)))
	require.NoError(t, err)
	require.Empty(t, left)
}
