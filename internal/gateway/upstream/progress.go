package upstream

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
	"github.com/rolloutd/rolloutd/internal/gateway/upstream/limits"
)

// Progress is the state of a call: when its reply last grew, why it is being retried, and whether it is
// held back. It is safe for concurrent use; a nil one records nothing. Its functions are set before the
// call begins; nil: not wanted.
type Progress struct {
	// called when Trouble changes, or when the call begins to wait for a paused endpoint
	Changed func()

	// called after the call was held back
	Held func(from, to time.Time)

	grew    atomic.Int64
	trouble atomic.Pointer[string]

	// nil: the endpoint is working on the call
	waiting atomic.Pointer[wait]
}

// wait is why the endpoint is not working on a call.
type wait struct {
	since time.Time

	// the try that began then failed; else the call waits for admission
	failed bool
}

// heldSpan returns the part of the wait, until to, in which the call was held back: all of it after a failed
// try; before the first try the part in which the endpoint was paused or had asked for no calls. Waiting
// for other calls does not count, since an agent makes as many calls as it likes.
func (w wait) heldSpan(a *limits.Admission, to time.Time) (time.Time, time.Time) {
	if w.failed {
		return w.since, to
	}

	return a.PausedPart(w.since, to)
}

// setWait records that the call waits. A failed try counts until the next one begins.
func (p *Progress) setWait(a *limits.Admission, w wait) {
	if p == nil {
		return
	}

	if before := p.waiting.Load(); before == nil || !before.failed {
		p.waiting.Store(&w)
	}

	if p.Changed != nil && !a.Paused().IsZero() {
		p.Changed()
	}
}

// HeldSince records that the call has been held back since that time by something other than its endpoint,
// and why, until Released.
func (p *Progress) HeldSince(a *limits.Admission, since time.Time, why string) {
	p.setWait(a, wait{since: since, failed: true})
	p.fails(why)
}

// Released records that the call is no longer held back.
func (p *Progress) Released(a *limits.Admission) { p.goesOn(a) }

// Resumed returns when the upstream is not paused; the error is why ctx ended first. The call counts as
// held back meanwhile.
func (p *Progress) Resumed(ctx context.Context, a *limits.Admission) error {
	if a.Paused().IsZero() {
		return nil
	}

	p.setWait(a, wait{since: time.Now()})
	defer p.goesOn(a)

	return a.Resumed(ctx)
}

// Waits reports whether the endpoint is not working on the call.
func (p *Progress) Waits() bool { return p.waiting.Load() != nil }

// goesOn records that the call no longer waits.
func (p *Progress) goesOn(a *limits.Admission) {
	if p == nil {
		return
	}

	if from, to := p.HeldBack(a, time.Now()); to.After(from) && p.Held != nil {
		p.Held(from, to)
	}

	p.waiting.Store(nil)
}

// HeldBack returns the current span in which the call is held back, until now; zero times: it is not.
func (p *Progress) HeldBack(a *limits.Admission, now time.Time) (from, to time.Time) {
	if w := p.waiting.Load(); w != nil {
		return w.heldSpan(a, now)
	}

	return time.Time{}, time.Time{}
}

// fails records why a try failed.
func (p *Progress) fails(why string) {
	if p == nil {
		return
	}

	if before := p.trouble.Swap(&why); p.Changed != nil && (before == nil || *before != why) {
		p.Changed()
	}
}

// Trouble returns why the latest try failed; "": none failed, or the reply grows.
func (p *Progress) Trouble() string {
	if why := p.trouble.Load(); why != nil {
		return *why
	}

	return ""
}

func (p *Progress) note(at time.Time) {
	if p == nil {
		return
	}

	p.grew.Store(at.UnixNano())

	if p.trouble.Load() != nil && p.trouble.Swap(nil) != nil && p.Changed != nil {
		p.Changed()
	}
}

// Grew returns when the reply last grew; the zero time: nothing has arrived.
func (p *Progress) Grew() time.Time {
	if p == nil || p.grew.Load() == 0 {
		return time.Time{}
	}

	return time.Unix(0, p.grew.Load())
}

// owes returns how much of a try that began at that time counts as waiting by now: nothing while the reply grows.
func (p *Progress) owes(began, now time.Time) time.Duration {
	grew := p.Grew()
	switch {
	case !grew.After(began):
		return now.Sub(began)
	case now.Sub(grew) < gatewayapi.StallTime:
		return 0
	default:
		return now.Sub(grew)
	}
}
