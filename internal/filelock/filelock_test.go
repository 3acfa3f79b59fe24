package filelock_test

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/filelock"
)

func TestHeldLockNamesItsHolder(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	first, err := filelock.Take(path)
	require.NoError(t, err)

	_, err = filelock.Take(path)
	var held *filelock.HeldError
	require.ErrorAs(t, err, &held)
	require.Contains(t, held.Owner, "process "+strconv.Itoa(os.Getpid()))

	require.NoError(t, first.Release())
	second, err := filelock.Take(path)
	require.NoError(t, err)
	require.NoError(t, second.Release())
}

func TestFolderMustExist(t *testing.T) {
	t.Parallel()
	_, err := filelock.Take(filepath.Join(t.TempDir(), "missing", "lock"))
	require.ErrorIs(t, err, os.ErrNotExist)
}
