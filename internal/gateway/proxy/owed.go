package proxy

import (
	"context"
	"errors"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway"
	"github.com/rolloutd/rolloutd/internal/gateway/proxy/held"
	"github.com/rolloutd/rolloutd/internal/gateway/upstream"
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

// prompting is since when the endpoint fails to tokenise a prompt that the agent waits for. The zero value: it does not.
type prompting struct {
	since time.Time
	lost  time.Time // since when no attempt got a connection; zero: the last one did
	why   string
}

// fails takes in an attempt that began then and failed.
func (p *prompting) fails(began time.Time, err error) {
	if p.since.IsZero() {
		p.since = began
	}
	p.why = err.Error()
	var none *upstream.UnreachableError
	switch {
	case !errors.As(err, &none):
		p.lost = time.Time{}
	case p.lost.IsZero():
		p.lost = began
	}
}

// tokenized takes in an attempt of the agent's to have a prompt tokenised. An endpoint that gives no answer for as long as a call may take
// has failed for good, as in a call; so has one that could not be connected to for the time of Options.Reach.
func (r *route) tokenized(began time.Time, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !fault.Is(err, fault.Unavailable) {
		r.promptEnded()
		return
	}
	paused := r.paused() != ""
	if paused {
		r.promptEnded() // the endpoint's time for an answer begins after the pause
	}
	r.prompting.fails(began, err)
	unreachable := !r.prompting.lost.IsZero() && time.Since(r.prompting.lost) >= r.reachTime
	if !paused && (unreachable || time.Since(r.prompting.since) >= r.callBudget()) {
		r.journal.Failure = &gateway.Failure{Kind: fault.UpstreamFailed, Message: r.prompting.why}
		r.saveOrLog("failure")
	}
	r.version.Note()
}

// promptEnded notes that the agent waits for no prompt any more. r.mu is held.
func (r *route) promptEnded() {
	if since := r.prompting.since; !since.IsZero() {
		now := time.Now()
		r.owed.add(now, now.Sub(since))
		r.prompting = prompting{}
		r.holdEnded(held.Span{From: since, To: now})
		r.version.Note()
	}
}

// trouble is why a call of the agent's own waits for a paused endpoint or is being retried; of several the one that began first. r.mu is held.
func (r *route) trouble() string {
	if why := r.paused(); why != "" && r.waits() {
		return why
	}
	if r.prompting.why != "" {
		return r.prompting.why
	}
	if r.begun == 0 {
		return r.unreached
	}
	var first *call
	for _, c := range r.inFlight {
		if awaited(c.ask.Kind) && c.progress.Trouble() != "" && (first == nil || c.turn < first.turn) {
			first = c
		}
	}
	if first == nil {
		return ""
	}
	return first.progress.Trouble()
}

// waits says whether the agent waits for an endpoint that does not work on what it asked. r.mu is held.
func (r *route) waits() bool {
	if !r.prompting.since.IsZero() {
		return true
	}
	for _, c := range r.inFlight {
		if awaited(c.ask.Kind) && c.progress.Waits() {
			return true
		}
	}
	return false
}

// paused says until when the endpoint is paused; "": it is not.
func (r *route) paused() string {
	until := r.admission.Paused()
	if until.IsZero() {
		return ""
	}
	return "it is paused, until " + until.UTC().Format(time.TimeOnly) + " UTC at the latest"
}

// reach tries to connect to the endpoint of a route without calls: a wrong address is known before the agent has started.
func (r *route) reach(ctx context.Context) {
	r.mu.Lock()
	idle := r.begun == 0
	r.mu.Unlock()
	if !idle || r.paused() != "" {
		return
	}
	why := r.upstream.Reach(ctx, upstream.Spec{Engines: r.engines, Key: r.key, ClientGiven: r.Model.ClientGiven()})
	if why == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unreached = why
	r.version.Note()
}

// owedSince is since when the endpoint owes an answer to a call under way, or a prompt; the zero time: it owes none. r.mu is held.
func (r *route) owedSince(now time.Time) time.Time {
	since := r.prompting.since
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
