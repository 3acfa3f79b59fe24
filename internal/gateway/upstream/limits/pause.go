package limits

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rolloutd/rolloutd/internal/clock"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
)

// ErrCleared is the cause of a request's end when its upstream is cleared. Its call is made again after the pause.
var ErrCleared = errors.New("upstream was cleared")

const (
	// maxHeld bounds for how long one answer can hold back all calls to an upstream: the header may be
	// wrong, or be about one client's quota. The call that got the answer waits for the full time.
	maxHeld = time.Minute
	// That many consecutive failed tries make an endpoint unfit for new rollouts, until a try succeeds or
	// that time has passed.
	ailing  = 3
	healing = 30 * time.Second
)

// Pause holds back requests for d from now. The latest pause counts.
func (a *Admission) Pause(d time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()

	now := time.Now()
	a.pauseEnd, a.pauseBegan = now.Add(d), now
	a.shut.extend(now, latest(a.pauseEnd, a.heldUntil))
	// the end of the wait may have changed
	a.admit()
}

// Paused returns the end of the pause, unless it is resumed before; the zero time: no pause.
func (a *Admission) Paused() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()

	if !time.Now().Before(a.pauseEnd) {
		return time.Time{}
	}

	return a.pauseEnd
}

// PausedSince reports whether a pause began after t, even if it is over.
func (a *Admission) PausedSince(t time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()

	return a.pauseBegan.After(t)
}

// resumedStep is the interval at which Resumed checks for the end of the pause.
const resumedStep = time.Second

// Resumed returns when the upstream is not paused; the error is why ctx ended first.
func (a *Admission) Resumed(ctx context.Context) error {
	for {
		until := a.Paused()
		if until.IsZero() {
			return nil
		}

		if err := clock.Sleep(ctx, min(time.Until(until), resumedStep)); err != nil {
			return err
		}
	}
}

// Resume ends a pause.
func (a *Admission) Resume() {
	a.mu.Lock()
	defer a.mu.Unlock()

	a.pauseEnd = time.Time{}
	a.shut.extend(time.Now(), a.heldUntil)
	a.admit()
}

// clear ends the requests in flight.
func (a *Admission) clear() {
	a.mu.Lock()
	defer a.mu.Unlock()

	for p := range a.running {
		p.cancel(ErrCleared)
	}
}

// drained returns when no request is in flight, or ctx ends.
func (a *Admission) drained(ctx context.Context) error {
	a.mu.Lock()
	if len(a.running) == 0 {
		a.mu.Unlock()
		return nil
	}

	if a.idle == nil {
		a.idle = make(chan struct{})
	}

	idle := a.idle
	a.mu.Unlock()

	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return fault.New(fault.Timeout, "calls are still in flight; no new ones begin until the pause ends")
	}
}

// Answered records a request that the endpoint answered. It logs the end of a run of failures.
func (a *Admission) Answered() {
	a.mu.Lock()
	defer a.mu.Unlock()

	a.endOutage()

	if a.failing >= ailing {
		a.log.Info("model endpoint answers again", "failed", a.failing)
	}

	a.failing = 0
}

// Fails records a failed request that may be retried. It logs the start of a run of failures, since agents
// may wait for minutes.
func (a *Admission) Fails(why string) {
	a.mu.Lock()
	defer a.mu.Unlock()

	a.failing++

	a.failed, a.why = time.Now(), why
	if a.failing == ailing {
		a.log.Warn("model endpoint fails: its calls are retried and new rollouts wait", "tries", a.failing,
			"error", why)
	}
}

// HoldBack records for how long the endpoint asks for no requests.
func (a *Admission) HoldBack(after time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()

	now := time.Now()
	if until := now.Add(min(after, maxHeld)); after > 0 && until.After(a.heldUntil) {
		a.heldUntil = until
		a.shut.extend(now, latest(a.pauseEnd, a.heldUntil))
	}
}

func (a *Admission) status() gatewayapi.UpstreamStatus {
	a.mu.Lock()
	defer a.mu.Unlock()

	s := gatewayapi.UpstreamStatus{Version: a.weights, InFlight: len(a.running), Queued: a.queue.n, Busy: a.busy()}

	now := time.Now()

	a.polledAt = now

	s.SilentSince, s.Faults = a.silentSince(now), addFaults(nil, a.faults)
	if a.outage != nil {
		s.Unreachable, s.UnreachableSince = a.outage.String(), a.outage.Since
	}

	if s.Paused = now.Before(a.pauseEnd); s.Paused {
		s.Until = a.pauseEnd
	}

	if now.Before(a.heldUntil) {
		s.HeldUntil = a.heldUntil
	}

	return s
}

// atRest reports whether the admission holds no state that would be lost with it.
func (a *Admission) atRest() bool {
	a.mu.Lock()
	defer a.mu.Unlock()

	now := time.Now()
	switch {
	case len(a.running) > 0, !a.queue.empty(), now.Before(a.pauseEnd), now.Before(a.heldUntil):
		return false
	case a.failing > 0 && now.Sub(a.failed) < healing:
		return false
	case a.outage != nil && a.outage.Answered && now.Sub(a.polledAt) < askedFor:
		return false
	default:
		return a.rate == nil || a.rate.TokensAt(now) >= float64(a.rate.Burst())
	}
}

// busy returns why new rollouts should wait; "": they need not. a.mu is held.
func (a *Admission) busy() string {
	now := time.Now()
	switch {
	case now.Before(a.pauseEnd):
		return "it is paused"
	case a.outage != nil && (a.outage.Answered || a.failing >= ailing && now.Sub(a.failed) < healing):
		return a.outage.String()
	case a.failing >= ailing && now.Sub(a.failed) < healing:
		return fmt.Sprintf("its last %d calls failed: %s", a.failing, a.why)
	case a.bounds.Queue > 0 && a.queue.n > a.bounds.Queue:
		return fmt.Sprintf("%d calls wait for it", a.queue.n)
	default:
		return ""
	}
}
