package limits

import (
	"context"
	"time"

	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
)

// ownMark separates an endpoint's name from the address of a server that a rollout gave under it; see
// rollout.Model.Upstream.
const ownMark = "@"

// Group is the admissions that a name refers to. An endpoint's name refers to the endpoint and the servers
// that rollouts gave under its name; host:port refers to that server under any name.
type Group []*Admission

// Clear ends the requests in flight of all admissions.
func (g Group) Clear() {
	for _, a := range g {
		a.clear()
	}
}

// Drained returns when no request of the group is in flight, or after wait.
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

// Status merges the statuses. The group is paused only if all of its admissions are; one may be paused
// alone, by its own name.
func (g Group) Status() gatewayapi.UpstreamStatus {
	sum := g[0].status()
	for _, a := range g[1:] {
		one := a.status()
		sum.InFlight += one.InFlight
		sum.Queued += one.Queued
		sum.Faults = addFaults(sum.Faults, one.Faults)

		if sum.SilentSince.IsZero() {
			sum.SilentSince = one.SilentSince
		}

		sum.HeldUntil = latest(sum.HeldUntil, one.HeldUntil)
		if sum.Unreachable == "" {
			sum.Unreachable, sum.UnreachableSince = one.Unreachable, one.UnreachableSince
		}

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
