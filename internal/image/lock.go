package image

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/clock"
	"github.com/rolloutd/rolloutd/internal/fault"
)

// lockStep is the time between two tries to lock.
const lockStep = 50 * time.Millisecond

// errHeld means that another process or goroutine holds the lock, or removes or replaces the file.
var errHeld = errors.New("in use")

// tryLock opens the file at path and locks it, unix.LOCK_SH or unix.LOCK_EX. The lock ends when the file is closed.
func tryLock(path string, flags, how int) (*os.File, error) {
	f, err := os.OpenFile(path, flags, 0o600)
	if err != nil {
		return nil, err
	}

	if err := lockOpened(f, how); err != nil {
		_ = f.Close()
		return nil, err
	}

	return f, nil
}

// lockOpened locks a file that was opened by its path. The lock of a file that is no longer at its path
// would protect nothing.
func lockOpened(f *os.File, how int) error {
	err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return errHeld
	}

	if err != nil {
		return err
	}

	opened, err := f.Stat()
	if err != nil {
		return err
	}

	if now, err := os.Stat(f.Name()); err != nil || !os.SameFile(opened, now) {
		return errHeld
	}

	return nil
}

// lock waits for the lock of a file that is never removed, which it creates.
func lock(ctx context.Context, path string, how int) (*os.File, error) {
	for {
		f, err := tryLock(path, os.O_RDWR|os.O_CREATE, how)
		if !errors.Is(err, errHeld) {
			return f, err
		}

		if err := clock.Sleep(ctx, lockStep); err != nil {
			return nil, fault.Wrap(fault.Unavailable, err, "wait for %s", path)
		}
	}
}
