package image

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// lockStep is the time between two tries to lock.
const lockStep = 50 * time.Millisecond

// errHeld means that another process or goroutine holds the lock.
var errHeld = errors.New("in use")

// tryLock opens the file at path and locks it, unix.LOCK_SH or unix.LOCK_EX. The lock ends when the file is closed.
func tryLock(path string, flags, how int) (*os.File, error) {
	f, err := os.OpenFile(path, flags, 0o600)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
	if err == nil {
		return f, nil
	}
	_ = f.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, errHeld
	}
	return nil, err
}

// lock waits for the lock of a file that is never removed, which it creates.
func lock(ctx context.Context, path string, how int) (*os.File, error) {
	tick := time.NewTicker(lockStep)
	defer tick.Stop()
	for {
		f, err := tryLock(path, os.O_RDWR|os.O_CREATE, how)
		if !errors.Is(err, errHeld) {
			return f, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, fault.Wrap(fault.Unavailable, ctx.Err(), "wait for %s", path)
		}
	}
}
