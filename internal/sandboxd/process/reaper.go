package process

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync"

	"golang.org/x/sys/unix"
)

// reaper waits for every child of this process. As pid 1 it inherits all orphans of the sandbox and must
// wait for any child, which would race with os/exec's wait for its own.
type reaper struct {
	mu      sync.Mutex
	watched map[int]chan unix.WaitStatus
	signals chan os.Signal
}

func newReaper() *reaper {
	r := &reaper{watched: map[int]chan unix.WaitStatus{}, signals: make(chan os.Signal, 1)}
	signal.Notify(r.signals, unix.SIGCHLD)

	return r
}

// start runs fork, which returns a child's pid, and sends the child's exit on the channel. The lock makes a
// child that ends at once known before it is reaped.
func (r *reaper) start(fork func() (int, error)) (int, <-chan unix.WaitStatus, error) {
	r.mu.Lock()
	defer r.mu.Unlock()

	pid, err := fork()
	if err != nil {
		return 0, nil, err
	}

	ended := make(chan unix.WaitStatus, 1)
	r.watched[pid] = ended

	return pid, ended, nil
}

func (r *reaper) run(ctx context.Context) error {
	defer signal.Stop(r.signals)

	for {
		r.reap()

		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-r.signals:
		}
	}
}

// reap reaps all children that have ended; one signal may be for many.
func (r *reaper) reap() {
	for {
		r.mu.Lock()

		var ws unix.WaitStatus

		pid, err := unix.Wait4(-1, &ws, unix.WNOHANG, nil)
		if pid > 0 {
			if ended, ok := r.watched[pid]; ok {
				ended <- ws

				delete(r.watched, pid)
			}
		}
		r.mu.Unlock()

		if pid <= 0 && !errors.Is(err, unix.EINTR) {
			return
		}
	}
}
