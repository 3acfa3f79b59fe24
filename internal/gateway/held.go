package gateway

import (
	"context"
	"time"

	"github.com/rolloutd/rolloutd/internal/trace"
)

const (
	// minHeld is the shortest wait that counts: every try of a call waits for a moment.
	minHeld = 100 * time.Millisecond
	// suspendFactor is the number of mark intervals without a mark after which the gateway is taken to have
	// been suspended. A busy machine or a slow disk delays a mark by less.
	suspendFactor = 4
)

// callHeld adds a span for which a call was held back.
func (r *route) callHeld(c *call, s HeldSpan) {
	r.mu.Lock()
	defer r.mu.Unlock()

	if awaited(c.request.Kind) {
		r.addHeld(s)
		// even after a short span: the status may have reported a pause
		r.version.Note()
	}
}

// addHeld adds a span in which the agent waited. r.mu is held.
func (r *route) addHeld(s HeldSpan) {
	if s.To.Sub(s.From) < minHeld {
		return
	}

	r.heldTime.Add(s)
	r.version.Note()
}

// heldBy returns the total time for which calls of the agent were held back until now, and whether one is
// held. r.mu is held.
func (r *route) heldBy(now time.Time) (total HeldTime, holding bool) {
	var open []HeldSpan
	if since := r.promptWait.since; !since.IsZero() {
		open = append(open, HeldSpan{From: since, To: now})
	}

	for _, c := range r.inFlight {
		if !awaited(c.request.Kind) {
			continue
		}

		if from, to := c.progress.HeldBack(r.admission, now); to.Sub(from) >= minHeld {
			open = append(open, HeldSpan{From: from, To: to})
		}
	}

	if s := r.suspended(now); !s.From.IsZero() {
		open = append(open, s)
	}

	return r.heldTime.With(open...), len(open) > 0
}

// suspended returns the span since the latest mark if the gateway's process or machine was suspended
// meanwhile, else the zero value. It uses the wall clock, as the agent's time limit does: the monotonic
// clock stops with the machine. r.mu is held.
func (r *route) suspended(now time.Time) HeldSpan {
	if now.Round(0).Sub(r.lastMark) < r.suspendAfter || !r.hasCalled() {
		return HeldSpan{}
	}

	from := r.lastMark
	if r.first.After(from) {
		from = r.first
	}

	return HeldSpan{From: from, To: now}
}

// hasCalled reports whether the agent has called its endpoint. r.mu is held.
func (r *route) hasCalled() bool {
	return !r.first.IsZero() || !r.promptWait.since.IsZero() || r.heldTime.Sum() > 0
}

// settleHeld merges spans that no later span can overlap: later spans begin after the start of the oldest
// call in flight or after the latest mark. r.mu is held.
func (r *route) settleHeld() {
	oldest := r.lastMark
	if since := r.promptWait.since; !since.IsZero() && since.Before(oldest) {
		oldest = since
	}

	for _, c := range r.inFlight {
		if c.began.Before(oldest) {
			oldest = c.began
		}
	}

	r.heldTime.Settle(oldest)
}

// mark returns the route's part of the gateway's mark; false: the agent has not called its endpoint.
func (r *route) mark(now time.Time) (HeldRoute, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()

	if s := r.suspended(now); !s.From.IsZero() {
		r.log.Warn("the gateway was suspended", "since", s.From)
		r.addHeld(s)
	}

	r.lastMark = now.Round(0)
	r.settleHeld()
	total, _ := r.heldBy(now)

	m := HeldRoute{Held: total, First: r.first}
	for _, c := range r.inFlight {
		if awaited(c.request.Kind) {
			m.Calls = append(m.Calls, HeldCall{Turn: c.turn, Began: c.began})
		}
	}

	return m, r.hasCalled()
}

// loadHeld adds the held time that the mark of an earlier gateway process has for the route.
func (r *route) loadHeld(m HeldMark, now time.Time) {
	r.heldTime, r.first = m.Recall(r.journal.Trace, r.recordedTurn, r.first, now)
}

// recordedTurn reports whether the call of a turn was completed. A call that ended with the gateway is made again.
func (r *route) recordedTurn(turn int) bool {
	if r.trace == nil {
		return false
	}

	for _, e := range r.trace.Entries() {
		if e.Turn == turn && e.Broken != brokenByStop {
			return true
		}
	}

	return false
}

// stopped counts a call that ended with the gateway. r.mu is held.
func (r *route) stopped(c *call, rec *trace.Record) {
	if awaited(c.request.Kind) && rec.Broken == brokenByStop {
		r.addHeld(HeldSpan{From: c.began, To: time.Now()})
	}
}

// noteAlive writes the mark: that the gateway is alive, and the state of its routes. It writes nothing without routes.
func (s *Server) noteAlive(context.Context) {
	now := time.Now()
	m := HeldMark{At: now, Routes: map[string]HeldRoute{}}

	ids := s.Routes()
	for _, id := range ids {
		if r, err := s.route(id); err == nil {
			if of, called := r.mark(now); called {
				m.Routes[r.journal.Trace] = of
			}
		}
	}

	if len(ids) == 0 {
		return
	}

	if err := SaveHeldMark(s.dir, m); err != nil {
		s.log.Error("time of held calls", "error", err)
	}
}
