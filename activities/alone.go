package activities

import (
	"context"
	"errors"
	"sync"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// errOvertaken ends a step whose attempt has gone on without it.
var errOvertaken = errors.New("a later step of the attempt has begun")

// floors has the steps of an attempt work one at a time. Temporal gives a step out again while the try before is at work, once it
// missed that one's heartbeats (an outage of Temporal's own suffices), and a workflow that drops a step goes on at once; what the
// old try would still do, it would do to the sandbox of the new one. All steps of a sandbox are done by one process, so the
// process can tell.
type floors struct {
	mu        sync.Mutex
	bySandbox map[string]*floor // of attempts that have a step at work
}

// floor is who may work in one attempt.
type floor struct {
	taken  chan struct{} // holds one element while a step is at work
	latest context.CancelCauseFunc
	users  int // steps at work or waiting
}

// alone ends the step of the attempt that is at work and waits until it is over. The context it returns ends when a later step
// comes; over must be called.
func (a *Activities) alone(ctx context.Context, t Target) (_ context.Context, over func(), err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	mine := a.floors.join(t.SandboxID(), cancel)
	leave := func() { cancel(nil); a.floors.leave(t.SandboxID()) }
	select {
	case mine.taken <- struct{}{}:
		return ctx, func() { <-mine.taken; leave() }, nil
	case <-ctx.Done():
		defer leave()
		return nil, nil, fault.Wrap(fault.Unavailable, ctx.Err(), "wait for the step before: %v", context.Cause(ctx))
	}
}

func (s *floors) join(id string, cancel context.CancelCauseFunc) *floor {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.bySandbox[id]
	if !ok {
		t = &floor{taken: make(chan struct{}, 1)}
		s.bySandbox[id] = t
	} else {
		t.latest(errOvertaken)
	}
	t.latest = cancel
	t.users++
	return t
}

func (s *floors) leave(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bySandbox[id].users--; s.bySandbox[id].users == 0 {
		delete(s.bySandbox, id)
	}
}
