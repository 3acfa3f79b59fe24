package proxy

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway"
)

// maxStatusWait bounds how long a request for a route's status is held open.
const maxStatusWait = time.Minute

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

// statusWait reads the query of GET /routes/{id}; without since the answer is immediate.
func statusWait(req *http.Request) (since int64, wait time.Duration, err error) {
	q := req.URL.Query()
	if !q.Has("since") {
		return 0, 0, nil
	}
	if since, err = strconv.ParseInt(q.Get("since"), 10, 64); err != nil {
		return 0, 0, fault.Field("since", "%q is not a version of a route's status", q.Get("since"))
	}
	if wait, err = time.ParseDuration(q.Get("wait")); err != nil {
		return 0, 0, fault.Field("wait", "%q is not a duration such as 30s", q.Get("wait"))
	}
	return since, min(max(wait, 0), maxStatusWait), nil
}
