package store_test

import (
	"os"
	"path/filepath"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/store"
)

// A sweep deletes the file of a killed writer. It keeps files that may still be written, and complete blobs.
func TestSweep(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	key := store.AttemptKey("r1", 1, store.Home)
	_, err := s.PutBytes(t.Context(), key, []byte("whole"))
	require.NoError(t, err)

	left := unfinished(t, s, dir)
	long := time.Now().Add(-2 * time.Hour)
	require.NoError(t, os.Chtimes(left, long, long))
	require.NoError(t, os.Chtimes(filepath.Join(dir, key), long, long))

	fresh := left + ".abc.tmp"
	require.NoError(t, os.WriteFile(fresh, nil, 0o600))

	n, err := s.Sweep(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.NoFileExists(t, left)
	require.FileExists(t, fresh)
	got, err := s.Bytes(t.Context(), key, 5)
	require.NoError(t, err)
	require.Equal(t, "whole", string(got))
}

// unfinished leaves a partial blob as a killed writer does, under the name that the driver chose.
func unfinished(t *testing.T, s *store.Store, dir string) string {
	t.Helper()

	var during []string

	_, err := s.Put(t.Context(), store.AttemptKey("r2", 1, store.Home), iotest.TimeoutReader(callbackReader{func() {
		found, err := filepath.Glob(filepath.Join(dir, "rollouts/r2/attempts/1/*"))
		require.NoError(t, err)

		during = found
	}}))
	require.Error(t, err)
	require.Len(t, during, 1)
	require.NoFileExists(t, during[0], "a writer that fails tidies up itself")
	require.NoError(t, os.WriteFile(during[0], []byte("ha"), 0o600))

	return during[0]
}

// callbackReader calls look at each Read, and returns one byte.
type callbackReader struct{ look func() }

func (p callbackReader) Read(b []byte) (int, error) {
	p.look()
	return copy(b, "x"), nil
}

func TestSweepOfAnotherStore(t *testing.T) {
	t.Parallel()
	n, err := open(t, "mem://").Sweep(t.Context())
	require.NoError(t, err)
	require.Zero(t, n)
}

// Empty folders go, and a folder with a blob stays with those above it.
func TestRemoveFolders(t *testing.T) {
	t.Parallel()

	dir := t.TempDir()
	s := open(t, dir)

	require.NoError(t, os.MkdirAll(filepath.Join(dir, "rollouts", "a", "attempts", "1"), 0o700))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "rollouts", "b", "attempts", "1"), 0o700))

	_, err := s.PutBytes(t.Context(), store.ResultKey("b"), []byte("{}"))
	require.NoError(t, err)

	for _, prefix := range []string{"rollouts/a/", "rollouts/b/", "rollouts/none/"} {
		require.NoError(t, s.RemoveFolders(prefix))
	}

	require.NoDirExists(t, filepath.Join(dir, "rollouts", "a"))
	require.NoDirExists(t, filepath.Join(dir, "rollouts", "b", "attempts"))
	require.FileExists(t, filepath.Join(dir, store.ResultKey("b")))
}
