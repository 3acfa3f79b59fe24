package gateway

import (
	"context"
	"time"

	"github.com/rolloutd/rolloutd/internal/gateway/dialect"
	"github.com/rolloutd/rolloutd/internal/gateway/upstream"
)

// call is one call of the agent. It is independent of the requests that wait for it: when the model channel
// breaks, the sandbox repeats its request on the next connection and joins the same call.
type call struct {
	id      string
	request *dialect.Request

	// set if the reply is passed on as it arrives
	live     *upstream.Live
	turn     int
	progress upstream.Progress
	began    time.Time

	// the call whose routed experts are the first of this one's; nil: there is none
	expertBase *expertCall

	// the fault of the engine for which its turn is not trained on
	masked string
	cancel context.CancelCauseFunc

	// closed when result is set
	done   chan struct{}
	result answer

	// Guarded by the route's lock.
	// requests that wait for the call or deliver its answer
	waiters int

	// result is set
	settled bool

	// requests that joined it after the first
	joins int

	// connection of the latest waiter
	epoch int

	// the caller of the last waiter is expected to ask again
	returns bool
}

// leaveGrace is the time after which a disconnect counts as a hang-up. Until then the channel may just have broken:
// a busy host takes a while to notice that.
const leaveGrace = 500 * time.Millisecond

// answer returns the answer of a call: from its record, from the same call in flight, or from the endpoint.
// It returns false when the caller is gone or the gateway stops. The caller calls over after it has
// delivered the answer.
func (r *route) answer(ctx context.Context, id string, d *delivery) (_ answer, over func(), _ bool) {
	for {
		c, ans := r.join(id, d.request)
		if c == nil {
			ans = r.replayed(ctx, ans)
			return ans, ans.memory.Release, ans.kind != interrupted
		}

		if d.await(ctx, c) != nil {
			r.leave(c, d.fromHost)
			return answer{}, nil, false
		}

		if c.result.kind != interrupted || d.sent > 0 || !r.alive() {
			return c.result, func() { r.delivered(c) }, c.result.kind != interrupted
		}
		// This request joined a call that was being canceled for lack of waiters: make the call again.
	}
}

// alive reports whether the route still makes calls.
func (r *route) alive() bool {
	r.mu.Lock()
	defer r.mu.Unlock()

	return r.working != nil && r.working.Err() == nil
}

// join returns the call in flight with that id, or starts it. It returns no call but an answer if the call
// is recorded or may not be made.
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
		r.report.answered(r.Model.Label(), outcomeEmpty)
		return nil, answer{kind: empty}
	}

	return r.beginCall(id, a), answer{}
}

// beginCall starts a call. r.mu is held.
func (r *route) beginCall(id string, a *dialect.Request) *call {
	ctx, cancel := context.WithCancelCause(r.working)

	var shown *upstream.Live
	// a translation needs the complete reply
	if r.passThrough && a.Stream && !a.Translated() {
		shown = upstream.NewLive(a.View, r.key)
	}

	r.latestTurn++
	r.endPromptWait()
	c := &call{
		id:      id,
		request: a,
		live:    shown,
		turn:    r.latestTurn,
		began:   time.Now(),
		cancel:  cancel,
		done:    make(chan struct{}),
		waiters: 1,
		epoch:   r.epoch,
	}
	c.progress.Changed, c.progress.Held = r.version.Note, func(from, to time.Time) {
		r.callHeld(c, HeldSpan{
			From: from,
			To:   to,
		})
	}

	r.inFlight[id] = c
	if r.dialect == nil && awaited(a.Kind) {
		r.dialect = a.Dialect
	}

	r.noteTimes(c.began)
	r.version.Note()
	r.report.began(r.Model.Label())
	r.calls.Go(func() {
		defer cancel(nil)

		r.perform(ctx, c)
	})

	return c
}

// delivered removes a request that has delivered its answer.
func (r *route) delivered(c *call) {
	r.mu.Lock()
	defer r.mu.Unlock()

	c.waiters--
	r.releaseAnswer(c)
}

// releaseAnswer releases the memory of an answer that no request delivers any more. r.mu is held.
func (r *route) releaseAnswer(c *call) {
	if c.settled && (c.waiters <= 0 || c.result.kind != wholeReply) {
		c.result.memory.Release()
	}
}

// leave removes a request whose caller disconnected. A caller on the host never hangs up on purpose: a
// restarted worker asks again.
func (r *route) leave(c *call, fromHost bool) {
	r.mu.Lock()
	defer r.mu.Unlock()

	c.returns = fromHost
	c.waiters--
	r.releaseAnswer(c)

	if c.waiters == 0 && !c.settled {
		time.AfterFunc(leaveGrace, func() { r.abandon(c) })
	}
}

// abandon cancels a call without waiters: at once if the agent hung up, after r.hold if its caller is
// expected to ask again.
func (r *route) abandon(c *call) {
	r.mu.Lock()
	joins := c.joins
	alone := c.waiters == 0
	expected := c.returns || c.epoch != r.epoch
	r.mu.Unlock()

	switch {
	case !alone:
	case !expected:
		c.cancel(errHungUp)
	default:
		time.AfterFunc(r.hold, func() { r.cancelAbandoned(c, joins) })
	}
}

// cancelAbandoned cancels the call unless another request has joined since: that request starts its own timer when it
// leaves.
func (r *route) cancelAbandoned(c *call, joins int) {
	r.mu.Lock()
	defer r.mu.Unlock()

	if c.waiters == 0 && c.joins == joins {
		c.cancel(errHungUp)
	}
}
