package proxy

import (
	"time"

	"github.com/rolloutd/rolloutd/internal/gateway"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// owed sums the time in which the endpoint owed the agent answers.
type owed struct {
	total time.Duration
	until time.Time // up to here it is counted: calls at the same time count once
}

// add counts the last d before end.
func (o *owed) add(end time.Time, d time.Duration) {
	begin := end.Add(-d)
	if begin.Before(o.until) {
		begin = o.until
	}
	if end.After(begin) {
		o.total += end.Sub(begin)
		o.until = end
	}
}

// awaited says whether the agent waits for calls of that kind: titles are made beside its work, and foreign calls are not its own.
func awaited(k rollout.TurnKind) bool {
	return k == rollout.KindAgent || k == rollout.KindSubagent || k == rollout.KindSummary
}

// owedSince is since when the endpoint owes an answer to a call under way; the zero time: it owes none. r.mu is held.
func (r *route) owedSince(now time.Time) time.Time {
	var since time.Time
	for _, c := range r.inFlight {
		if !awaited(c.ask.Kind) {
			continue
		}
		from := c.began
		if grew := c.progress.Grew(); grew.After(from) {
			if now.Sub(grew) < gateway.StallTime {
				continue
			}
			from = grew
		}
		if since.IsZero() || from.Before(since) {
			since = from
		}
	}
	return since
}
