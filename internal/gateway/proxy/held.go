package proxy

import (
	"context"
	"slices"
	"time"

	"github.com/rolloutd/rolloutd/internal/gateway/proxy/journal"
)

const (
	// leastHeld is the least time that counts: a call waits for a moment at each of its tries.
	leastHeld = 100 * time.Millisecond
	// leastKept is what the sum may lack in the journal.
	leastKept = time.Second
	// aliveStep is how often the gateway notes that it is alive.
	aliveStep = 5 * time.Second
)

// held sums the time in which calls of the agent were held back. Calls at the same time count once.
type held struct {
	total time.Duration // of spans that are over for all calls
	spans []span        // in order, apart from each other
}

type span struct{ from, to time.Time }

// add takes in one span.
func (h *held) add(s span) {
	if !s.to.After(s.from) {
		return
	}
	apart := h.spans[:0:0]
	for _, o := range h.spans {
		if o.to.Before(s.from) || s.to.Before(o.from) {
			apart = append(apart, o)
			continue
		}
		s.from, s.to = earliest(s.from, o.from), latest(s.to, o.to)
	}
	at, _ := slices.BinarySearchFunc(apart, s.from, func(o span, t time.Time) int { return o.from.Compare(t) })
	h.spans = slices.Insert(apart, at, s)
}

// settle counts the spans before the begin of the oldest call under way: no further span begins there.
func (h *held) settle(oldest time.Time) {
	for len(h.spans) > 0 && !h.spans[0].to.After(oldest) {
		h.total += h.spans[0].to.Sub(h.spans[0].from)
		h.spans = h.spans[1:]
	}
}

// sum is the time together with that of further spans.
func (h held) sum(further []span) time.Duration {
	h.spans = slices.Clone(h.spans)
	for _, s := range further {
		h.add(s)
	}
	for _, s := range h.spans {
		h.total += s.to.Sub(s.from)
	}
	return h.total
}

func earliest(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// heldBack takes in that a call was held back.
func (r *route) heldBack(c *call, s span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if awaited(c.ask.Kind) {
		r.holdEnded(s)
	}
}

// holdEnded counts a span in which the agent waited. r.mu is held.
func (r *route) holdEnded(s span) {
	if s.to.Sub(s.from) < leastHeld {
		return
	}
	r.held.add(s)
	r.keepHeld(s.to)
	r.version.Note()
}

// keepHeld journals for how long calls have been held back, and since when they are, where that has changed: what a killed gateway held back
// must not be taken from the agent's time. r.mu is held.
func (r *route) keepHeld(now time.Time) {
	total, holding := r.heldBy(now)
	noted := !r.journal.HeldAt.IsZero()
	if holding == noted && (holding || total-r.journal.Held < leastKept) {
		return
	}
	r.journal.Held, r.journal.HeldAt = total, time.Time{}
	if holding {
		r.journal.HeldAt = now
	}
	r.saveOrLog("time of held calls")
}

// heldBy is for how long calls of the agent were held back until now, and whether one is. r.mu is held.
func (r *route) heldBy(now time.Time) (total time.Duration, holding bool) {
	var open []span
	if since := r.prompting.since; !since.IsZero() {
		open = append(open, span{since, now})
	}
	for _, c := range r.inFlight {
		if !awaited(c.ask.Kind) {
			continue
		}
		if from, to := c.progress.HeldBack(r.admission, now); to.Sub(from) >= leastHeld {
			open = append(open, span{from, to})
		}
	}
	return r.held.sum(open), len(open) > 0
}

// settleHeld forgets what no further span can overlap. r.mu is held.
func (r *route) settleHeld(now time.Time) {
	oldest := now
	if since := r.prompting.since; !since.IsZero() {
		oldest = since
	}
	for _, c := range r.inFlight {
		oldest = earliest(oldest, c.began)
	}
	r.held.settle(oldest)
}

// recallHeld counts what the journal has, and the time in which the gateway was away: since calls were held back, or since it was seen alive.
func (r *route) recallHeld(seen, now time.Time) {
	since := seen
	if !r.journal.HeldAt.IsZero() {
		since = r.journal.HeldAt
	}
	r.held.total = r.journal.Held
	called := r.begun > 0 || !r.journal.HeldAt.IsZero()
	if away := now.Sub(since); called && !since.IsZero() && away >= leastHeld {
		r.held.total += away
	}
}

// noteAlive notes that the gateway is alive, and which of its routes have calls that are held back.
func (s *Server) noteAlive(context.Context) {
	if err := journal.NoteAlive(s.dir); err != nil {
		s.log.Error("time of held calls", "error", err)
	}
	for _, id := range s.Routes() {
		if r, err := s.route(id); err == nil {
			r.mu.Lock()
			r.keepHeld(time.Now())
			r.mu.Unlock()
		}
	}
}
