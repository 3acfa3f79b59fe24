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
