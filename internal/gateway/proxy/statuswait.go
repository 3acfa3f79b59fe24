package proxy

import (
	"context"
	"time"

	"github.com/rolloutd/rolloutd/internal/gateway"
)

// statusVersion counts the changes of a route's status. The route's lock guards it.
type statusVersion struct {
	current int64
	next    chan struct{} // closed at the next change
}

// newStatusVersion begins at the time in nanoseconds, so that a version given out before a restart is not current after it.
func newStatusVersion() statusVersion {
	return statusVersion{current: time.Now().UnixNano(), next: make(chan struct{})}
}

// note records a change and wakes all who wait for one.
func (c *statusVersion) note() {
	c.current++
	close(c.next)
	c.next = make(chan struct{})
}

// noteChange is statusVersion.note for what changes without the route's lock.
func (r *route) noteChange() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.version.note()
}

// changed returns the status once its version differs from since, or after wait, or when the route stops working.
func (r *route) changed(ctx context.Context, since int64, wait time.Duration) gateway.RouteStatus {
	r.mu.Lock()
	current, next, working := r.version.current, r.version.next, r.working
	r.mu.Unlock()
	if current == since && working != nil {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-next:
		case <-timer.C:
		case <-working.Done():
		case <-ctx.Done():
		}
	}
	return r.status()
}

// Status returns the status of a route once its version is not since, or after wait, or when the route stops working.
func (s *Server) Status(ctx context.Context, id string, since int64, wait time.Duration) (gateway.RouteStatus, error) {
	r, err := s.route(id)
	if err != nil {
		return gateway.RouteStatus{}, err
	}
	return r.changed(ctx, since, wait), nil
}

// Turns lists the recorded calls of a route behind the first n, in the order they ended, at most gateway.MaxTurns of them.
func (s *Server) Turns(id string, n int) ([]gateway.Turn, error) {
	r, err := s.route(id)
	if err != nil || r.trace == nil {
		return nil, err
	}
	turns := []gateway.Turn{}
	for _, e := range r.trace.EntriesFrom(max(n, 0), gateway.MaxTurns) {
		turns = append(turns, gateway.Turn{
			Turn: e.Turn, Kind: e.Kind, Lineage: e.Lineage, PromptTokens: e.Usage.PromptTokens, CompletionTokens: e.Usage.CompletionTokens,
			FinishReason: e.Finish, Broken: e.Broken, Began: e.Began, Ended: e.Ended,
		})
	}
	return turns, nil
}

// recorded is how many calls the trace has.
func (r *route) recorded() int {
	if r.trace == nil {
		return 0
	}
	return r.trace.Len()
}
