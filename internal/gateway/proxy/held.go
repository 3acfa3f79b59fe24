package proxy

import (
	"context"
	"time"

	"github.com/rolloutd/rolloutd/internal/gateway/proxy/held"
	"github.com/rolloutd/rolloutd/internal/trace"
)

const (
	// leastHeld is the least time that counts: a call waits for a moment at each of its tries.
	leastHeld = 100 * time.Millisecond
	// stillFactor is how many times the pause between two marks a gateway takes that stood still. A busy machine or a slow disk takes fewer.
	stillFactor = 4
)

// heldBack takes in that a call was held back.
func (r *route) heldBack(c *call, s held.Span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if awaited(c.ask.Kind) {
		r.holdEnded(s)
		r.version.Note() // however short it was, the status may have said that the endpoint is paused
	}
}

// holdEnded counts a span in which the agent waited. r.mu is held.
func (r *route) holdEnded(s held.Span) {
	if s.To.Sub(s.From) < leastHeld {
		return
	}
	r.held.Add(s)
	r.version.Note()
}

// heldBy is for how long calls of the agent were held back until now, and whether one is. r.mu is held.
func (r *route) heldBy(now time.Time) (total held.Time, holding bool) {
	var open []held.Span
	if since := r.prompting.since; !since.IsZero() {
		open = append(open, held.Span{From: since, To: now})
	}
	for _, c := range r.inFlight {
		if !awaited(c.ask.Kind) {
			continue
		}
		if from, to := c.progress.HeldBack(r.admission, now); to.Sub(from) >= leastHeld {
			open = append(open, held.Span{From: from, To: to})
		}
	}
	if s := r.stoodStill(now); !s.From.IsZero() {
		open = append(open, s)
	}
	return r.held.With(open...), len(open) > 0
}

// stoodStill is the time since the latest mark where that is so long ago that the gateway stood still, as its process or its machine was stopped; else the zero
// value. It is by the wall clock, as the agent's time is: the other one stops with the machine. r.mu is held.
func (r *route) stoodStill(now time.Time) held.Span {
	if now.Round(0).Sub(r.marked) < r.still || !r.asked() {
		return held.Span{}
	}
	from := r.marked
	if r.first.After(from) {
		from = r.first
	}
	return held.Span{From: from, To: now}
}

// asked says whether the agent has asked anything of its endpoint. r.mu is held.
func (r *route) asked() bool {
	return !r.first.IsZero() || !r.prompting.since.IsZero() || r.held.Sum() > 0
}

// settleHeld forgets what no further span can overlap: none begins before the oldest call under way and before the latest mark. r.mu is held.
func (r *route) settleHeld() {
	oldest := r.marked
	if since := r.prompting.since; !since.IsZero() && since.Before(oldest) {
		oldest = since
	}
	for _, c := range r.inFlight {
		if c.began.Before(oldest) {
			oldest = c.began
		}
	}
	r.held.Settle(oldest)
}

// mark is what the gateway notes of the route; false: the agent has not asked anything of its endpoint.
func (r *route) mark(now time.Time) (held.Route, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.stoodStill(now); !s.From.IsZero() {
		r.log.Warn("the gateway stood still", "since", s.From)
		r.holdEnded(s)
	}
	r.marked = now.Round(0)
	r.settleHeld()
	total, _ := r.heldBy(now)
	m := held.Route{Held: total, First: r.first}
	for _, c := range r.inFlight {
		if awaited(c.ask.Kind) {
			m.Calls = append(m.Calls, held.Call{Turn: c.turn, Began: c.began})
		}
	}
	return m, r.asked()
}

// recallHeld counts what the mark of a gateway that is gone has of the route.
func (r *route) recallHeld(m held.Mark, now time.Time) {
	r.held, r.first = m.Recall(r.journal.Trace, r.recordedTurn, r.first, now)
}

// recordedTurn says whether the call of a turn came to its end. One that ended with the gateway is made again.
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
	if awaited(c.ask.Kind) && rec.Broken == brokenByStop {
		r.holdEnded(held.Span{From: c.began, To: time.Now()})
	}
}

// noteAlive notes that the gateway is alive, and how its routes stand. Without routes there is nothing to note.
func (s *Server) noteAlive(context.Context) {
	now := time.Now()
	m := held.Mark{At: now, Routes: map[string]held.Route{}}
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
	if err := held.Save(s.dir, m); err != nil {
		s.log.Error("time of held calls", "error", err)
	}
}
