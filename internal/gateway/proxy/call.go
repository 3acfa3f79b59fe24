package proxy

import (
	"context"
	"time"

	"github.com/rolloutd/rolloutd/internal/gateway/dialect"
	"github.com/rolloutd/rolloutd/internal/gateway/proxy/held"
	"github.com/rolloutd/rolloutd/internal/gateway/upstream"
)

// call is one call of the agent, worked on apart from the requests that wait for it: when the model channel breaks, the
// sandbox asks again on the next one, and finds the same call.
type call struct {
	id       string
	ask      *dialect.Request
	live     *upstream.Live // of a reply that is handed on as it comes; else nil
	turn     int
	progress upstream.Progress
	began    time.Time
	cancel   context.CancelCauseFunc
	done     chan struct{} // closed when result is there
	result   answer

	// Guarded by the route's lock.
	waiters int  // requests that wait for it, or hand its answer over
	settled bool // result is there
	joins   int  // requests that joined it after the first
	epoch   int  // of the connection by which the last waiter came
	returns bool // the waiter that left last is expected to ask again
}

// leaveGrace is how long an abandoned call is kept to see whether the agent hung up or the channel broke. The two look the
// same for a moment.
const leaveGrace = 50 * time.Millisecond

// answer answers the call from its record, from the same call under way, or from the endpoint. It is false when the caller is gone or the
// gateway stops. The caller calls over once it has handed the answer over.
func (r *route) answer(ctx context.Context, id string, d *delivery) (_ answer, over func(), _ bool) {
	for {
		c, ans := r.join(id, d.ask)
		if c == nil {
			ans = r.replayed(ctx, ans)
			return ans, ans.held.Release, ans.kind != interrupted
		}
		if d.await(ctx, c) != nil {
			r.leave(c, d.fromHost)
			return answer{}, nil, false
		}
		if c.result.kind != interrupted || d.sent > 0 || !r.alive() {
			return c.result, func() { r.delivered(c) }, c.result.kind != interrupted
		}
		// The call was being cancelled, since no request waited for it, when this one joined: make it again.
	}
}

// alive says whether calls are still made.
func (r *route) alive() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.working != nil && r.working.Err() == nil
}

// join finds the call of that id, under way or on record, or begins it. Without a call there is an answer.
func (r *route) join(id string, a *dialect.Request) (*call, answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c, ok := r.inFlight[id]; ok {
		c.waiters++
		c.joins++
		c.epoch = r.epoch
		return c, answer{}
	}
	if r.trace != nil {
		if e, ok := r.trace.Find(id); ok {
			return nil, answer{kind: recorded, entry: &e}
		}
	}
	switch {
	case r.working == nil || r.working.Err() != nil:
		return nil, answer{kind: interrupted}
	case r.journal.Ended != "" || r.overBudget(a.Kind):
		r.report.calls.WithLabelValues(outcomeEmpty).Inc()
		return nil, answer{kind: empty}
	}
	return r.begin(id, a), answer{}
}

// begin starts work on a call. r.mu is held.
func (r *route) begin(id string, a *dialect.Request) *call {
	ctx, cancel := context.WithCancelCause(r.working)
	var shown *upstream.Live
	if r.passThrough && a.Stream && !a.Translated() { // a translation wants the whole reply
		shown = upstream.NewLive(a.View, r.key)
	}
	r.begun++
	r.promptEnded()
	c := &call{
		id: id, ask: a, live: shown, turn: r.begun, began: time.Now(), cancel: cancel, done: make(chan struct{}), waiters: 1, epoch: r.epoch,
	}
	c.progress.Changed, c.progress.Held = r.version.Note, func(from, to time.Time) { r.heldBack(c, held.Span{From: from, To: to}) }
	r.inFlight[id], r.dialect = c, a.Dialect
	r.see(c.began)
	r.version.Note()
	r.report.inFlight.Inc()
	r.calls.Go(func() {
		defer cancel(nil)
		r.perform(ctx, c)
	})
	return c
}

// delivered notes that one of the requests for the call has its answer.
func (r *route) delivered(c *call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c.waiters--
	r.letGo(c)
}

// letGo gives the memory of an answer back that no request hands over any more. r.mu is held.
func (r *route) letGo(c *call) {
	if c.settled && (c.waiters <= 0 || c.result.kind != whole) {
		c.result.held.Release()
	}
}

// leave notes that one of the requests for the call is gone. A caller on the host never hangs up on purpose: a worker that was killed
// comes back and asks again.
func (r *route) leave(c *call, fromHost bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c.returns = fromHost
	c.waiters--
	r.letGo(c)
	if c.waiters == 0 && !c.settled {
		time.AfterFunc(leaveGrace, func() { r.abandon(c) })
	}
}

// abandon cancels a call that no request waits for: at once when the agent hung up, later when its caller is expected to ask again,
// over a new channel of the sandbox or from the host.
func (r *route) abandon(c *call) {
	r.mu.Lock()
	joins := c.joins
	alone := c.waiters == 0
	expected := c.returns || c.epoch != r.epoch
	r.mu.Unlock()
	switch {
	case !alone:
	case !expected:
		c.cancel(errLeft)
	default:
		time.AfterFunc(r.hold, func() { r.drop(c, joins) })
	}
}

// drop cancels the call unless another request joined it after that many: its leaving has a timer of its own.
func (r *route) drop(c *call, joins int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.waiters == 0 && c.joins == joins {
		c.cancel(errLeft)
	}
}
