package gateway

import (
	"errors"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
	"github.com/rolloutd/rolloutd/internal/gateway/upstream"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// waitTime sums the time for which the agent waited for the endpoint.
type waitTime struct {
	total time.Duration

	// end of the counted time; parallel calls count once
	until time.Time
}

// add counts the duration d that ended at end.
func (w *waitTime) add(end time.Time, d time.Duration) {
	begin := end.Add(-d)
	if begin.Before(w.until) {
		begin = w.until
	}

	if end.After(begin) {
		w.total += end.Sub(begin)
		w.until = end
	}
}

// awaited reports whether the agent waits for calls of that kind. It makes titles beside its work, and
// foreign calls are not its own.
func awaited(k rollout.TurnKind) bool {
	return k == rollout.KindAgent || k == rollout.KindSubagent || k == rollout.KindSummary
}

// promptWait describes an endpoint that fails to tokenise a prompt for which the agent waits. The zero
// value: it does not fail.
type promptWait struct {
	since time.Time

	// start of the time that counts against the budget of a call
	budget time.Time

	// start of the attempts without a connection; zero: the last one connected
	disconnectedSince time.Time

	// the endpoint that cannot be connected to has answered before
	away bool
	why  string
}

// addFailure records a failed attempt that began at that time.
func (p *promptWait) addFailure(began time.Time, err error) {
	if p.since.IsZero() {
		p.since, p.budget = began, began
	}

	p.why = err.Error()

	var none *upstream.UnreachableError
	if !errors.As(err, &none) {
		p.disconnectedSince, p.away = time.Time{}, false
		return
	}

	if p.disconnectedSince.IsZero() {
		p.disconnectedSince = began
	}

	p.why = none.Outage.String()
	if p.away = none.Outage.Answered; p.away {
		p.budget = time.Now()
	}
}

// failure is the final failure of an endpoint that has not answered for the time budget of a call, could
// not be connected to and has never answered for the time of reach, or has been away for longer than away.
// nil: there is none yet.
func (p *promptWait) failure(budget, reach, away time.Duration) *gatewayapi.Failure {
	lost := time.Duration(0)
	if !p.disconnectedSince.IsZero() {
		lost = time.Since(p.disconnectedSince)
	}

	switch {
	case p.disconnectedSince.IsZero() && time.Since(p.budget) >= budget, p.away && lost >= away:
		return &gatewayapi.Failure{Kind: fault.UpstreamFailed, Message: p.why}
	case !p.disconnectedSince.IsZero() && !p.away && lost >= reach:
		return &gatewayapi.Failure{Kind: fault.UpstreamRefused, Message: p.why}
	default:
		return nil
	}
}

// noteTokenize records an attempt to have a prompt tokenised, which may be the last; see promptWait.failure.
func (r *route) noteTokenize(began time.Time, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()

	if !fault.Is(err, fault.Unavailable) {
		r.endPromptWait()
		return
	}

	paused := r.paused() != ""
	if paused {
		// time during the pause does not count against the endpoint
		r.endPromptWait()
	}

	r.promptWait.addFailure(began, err)

	if failure := r.promptWait.failure(r.callBudget(), r.reachTime, r.awayTime()); !paused && failure != nil {
		r.journal.Failure = failure
		r.saveOrLog("failure")
	}

	r.version.Note()
}

// endPromptWait records that the agent waits for no prompt. r.mu is held.
func (r *route) endPromptWait() {
	if since := r.promptWait.since; !since.IsZero() {
		now := time.Now()
		r.waitTime.add(now, now.Sub(since))
		r.promptWait = promptWait{}
		r.addHeld(HeldSpan{From: since, To: now})
		r.version.Note()
	}
}

// trouble returns why the agent's earliest call waits for a paused endpoint or is retried; "": neither. r.mu is held.
func (r *route) trouble() string {
	if why := r.paused(); why != "" && r.waits() {
		return why
	}

	if r.promptWait.why != "" {
		return r.promptWait.why
	}

	if r.latestTurn == 0 {
		return r.admission.Outage()
	}

	var first *call
	for _, c := range r.inFlight {
		if awaited(c.request.Kind) && c.progress.Trouble() != "" && (first == nil || c.turn < first.turn) {
			first = c
		}
	}

	if first == nil {
		return ""
	}

	return first.progress.Trouble()
}

// waits reports whether the agent waits for an endpoint that is not working on its request. r.mu is held.
func (r *route) waits() bool {
	if !r.promptWait.since.IsZero() {
		return true
	}

	for _, c := range r.inFlight {
		if awaited(c.request.Kind) && c.progress.Waits() {
			return true
		}
	}

	return false
}

// paused returns until when the endpoint is paused; "": it is not.
func (r *route) paused() string {
	until := r.admission.Paused()
	if until.IsZero() {
		return ""
	}

	return "it is paused, until " + until.UTC().Format(time.TimeOnly) + " UTC at the latest"
}

// waitingSince returns since when the agent waits for the endpoint; the zero time: it does not. r.mu is held.
func (r *route) waitingSince(now time.Time) time.Time {
	since := r.promptWait.since
	for _, c := range r.inFlight {
		if !awaited(c.request.Kind) {
			continue
		}

		from := c.began
		if grew := c.progress.Grew(); grew.After(from) {
			if now.Sub(grew) < gatewayapi.StallTime {
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
