package supervisor

import (
	"context"

	"github.com/rolloutd/rolloutd/internal/agent"
)

// update is the next status of an agent, or the error of reading it.
type update struct {
	status agent.Status
	err    error
}

// statuses reads the statuses of an agent in a goroutine. A host has one for each agent; updates are
// pointers, which keeps its stack small.
type statuses struct {
	updates chan *update
	cancel  context.CancelFunc
	ended   chan struct{}
}

// startStatuses reads statuses until the last one, or until close.
func startStatuses(ctx context.Context, run agent.Run) *statuses {
	ctx, cancel := context.WithCancel(ctx)

	s := &statuses{updates: make(chan *update), cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(s.ended)

		for u := next(ctx, run); s.send(ctx, u); u = next(ctx, run) {
		}
	}()

	return s
}

func next(ctx context.Context, run agent.Run) *update {
	u := &update{}
	u.status, u.err = run.Next(ctx)

	return u
}

// send sends an update, and reports whether more follow.
func (s *statuses) send(ctx context.Context, u *update) bool {
	select {
	case s.updates <- u:
		return !u.status.Done && u.err == nil
	case <-ctx.Done():
		return false
	}
}

// close ends the goroutine and waits for it.
func (s *statuses) close() {
	s.cancel()
	<-s.ended
}
