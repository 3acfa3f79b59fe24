package limits

import (
	"context"
	"time"

	"github.com/rolloutd/rolloutd/internal/gateway"
)

// ownMark stands between an endpoint's name and the address of a server that a rollout gave under it; see rollout.Model.Upstream.
const ownMark = "@"

// Group is what a name stands for: the admission to the endpoint itself, and those to the servers that rollouts gave under its name;
// of host:port, to that server under whatever name.
type Group []*Admission

// Clear ends the requests in flight of all admissions.
func (g Group) Clear() {
	for _, a := range g {
		a.clear()
	}
}

// Drained returns when no request of any is under way, or wait is over.
func (g Group) Drained(ctx context.Context, wait time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for _, a := range g {
		if err := a.drained(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Status sums up. All are paused together or, one by its own name, apart: then the whole is not.
func (g Group) Status() gateway.UpstreamStatus {
	sum := g[0].status()
	for _, a := range g[1:] {
		one := a.status()
		sum.InFlight += one.InFlight
		sum.Queued += one.Queued
		sum.HeldUntil = latest(sum.HeldUntil, one.HeldUntil)
		if sum.Busy == "" {
			sum.Busy = one.Busy
		}
		if !one.Paused {
			sum.Paused, sum.Until = false, time.Time{}
		}
	}
	return sum
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
