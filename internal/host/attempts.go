package host

import (
	"context"
	"errors"
	"sync"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// errSuperseded ends an activity whose attempt has gone on to a later activity.
var errSuperseded = errors.New("a later activity of the attempt has begun")

// Attempts runs the activities of each attempt one at a time.
//
// Temporal retries an activity whose heartbeats it missed, although the previous try may still be running
// (an outage of Temporal is enough), and a workflow that cancels an activity goes on at once. Both tries
// would then work in one sandbox. All activities of a sandbox run in one process, so a lock in that process
// is enough. The zero value is ready for use; it is safe for concurrent use.
type Attempts struct {
	mu sync.Mutex

	// locks of attempts with an activity that runs or waits
	byID map[string]*attemptLock
}

// attemptLock is held by the activity that may work in one attempt.
type attemptLock struct {
	// holds one element while an activity runs
	running      chan struct{}
	cancelLatest context.CancelCauseFunc

	// activities that run or wait
	users int
}

// Acquire cancels the activity of the attempt that is running, waits until it has returned, and returns a
// context that ends when a later activity of the attempt calls Acquire. release must be called. id names
// the attempt. The error is of kind Unavailable when ctx ended, or a later activity came, during the wait.
func (s *Attempts) Acquire(ctx context.Context, id string) (_ context.Context, release func(), err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	lock := s.claim(id, cancel)
	leave := func() { cancel(nil); s.leave(id) }

	select {
	case lock.running <- struct{}{}:
		return ctx, func() { <-lock.running; leave() }, nil
	case <-ctx.Done():
		defer leave()

		return nil, nil, fault.Wrap(fault.Unavailable, ctx.Err(), "wait for the previous activity of %s: %v",
			id, context.Cause(ctx))
	}
}

func (s *Attempts) claim(id string, cancel context.CancelCauseFunc) *attemptLock {
	s.mu.Lock()
	defer s.mu.Unlock()

	lock, ok := s.byID[id]
	if ok {
		lock.cancelLatest(errSuperseded)
	} else {
		if s.byID == nil {
			s.byID = map[string]*attemptLock{}
		}

		lock = &attemptLock{running: make(chan struct{}, 1)}
		s.byID[id] = lock
	}

	lock.cancelLatest = cancel
	lock.users++

	return lock
}

func (s *Attempts) leave(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()

	if s.byID[id].users--; s.byID[id].users == 0 {
		delete(s.byID, id)
	}
}
