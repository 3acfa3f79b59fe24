package filelock_test

import (
	"context"
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
	first, err := filelock.Acquire(path)
	require.NoError(t, err)

	_, err = filelock.Acquire(path)

	var held *filelock.HeldError
	require.ErrorAs(t, err, &held)
	require.Contains(t, held.Owner, "process "+strconv.Itoa(os.Getpid()))

	require.NoError(t, first.Release())

	second, err := filelock.Acquire(path)
	require.NoError(t, err)
	require.NoError(t, second.Release())
}

func TestFolderMustExist(t *testing.T) {
	t.Parallel()
	_, err := filelock.Acquire(filepath.Join(t.TempDir(), "missing", "lock"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestWait(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	first, err := filelock.Acquire(path)
	require.NoError(t, err)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()

	_, err = filelock.Wait(cancelled, path)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, path+" is held by")

	got := make(chan error, 1)

	go func() {
		second, err := filelock.Wait(t.Context(), path)
		if err == nil {
			err = second.Release()
		}

		got <- err
	}()

	require.NoError(t, first.Release())
	require.NoError(t, <-got)
}
