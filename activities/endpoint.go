package activities

import (
	"context"
	"math/rand/v2"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/temporalx/failure"
)

const (
	// readyPause is between two looks at an overburdened model endpoint; up to as much again is added, so that those who wait
	// do not all come at once.
	readyPause = time.Second
	// leastReturn, doubled each time up to mostReturn, is the same for who gives his slot back. It is longer, for to come again
	// costs Temporal more than a look costs the gateway.
	leastReturn = 2 * time.Second
	mostReturn  = 10 * time.Second
)

// ready returns when the upstream can bear another rollout. Few wait for that in their slots, so as to begin at once; the others
// give theirs back, for rollouts whose endpoints are well: Temporal gives the step out again later, to any host.
func (a *Activities) ready(ctx context.Context, in CreateSandboxInput) error {
	if in.Upstream == "" {
		return nil
	}
	why := a.o.Gateway.Ready(ctx, in.Upstream)
	if !fault.Is(why, fault.Exhausted) {
		return why
	}
	told := waited(ctx)
	if told == (rollout.Waiting{}) { // once for the attempt: Temporal shows how it goes on
		a.loggerOf("CreateSandbox", in.Target).WarnContext(ctx, "waiting for the model endpoint", "why", why)
	}
	select {
	case a.waiting <- struct{}{}:
		defer func() { <-a.waiting }()
	default:
		if in.Tries > 0 {
			return a.giveBack(ctx, in.Upstream, told, why)
		}
	}
	return a.stay(ctx, in, told, why)
}

// stay waits in the slot, as long as there is time left to make a sandbox in.
func (a *Activities) stay(ctx context.Context, in CreateSandboxInput, told rollout.Waiting, why error) error {
	for ; fault.Is(why, fault.Exhausted); why = a.o.Gateway.Ready(ctx, in.Upstream) {
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < createTimeout {
			return failure.Final(why)
		}
		if told.Why != why.Error() {
			told.Why = why.Error()
			activity.RecordHeartbeat(ctx, told)
		}
		if err := sleep(ctx, readyPause+rand.N(readyPause)); err != nil {
			return err
		}
	}
	told.Why = ""
	activity.RecordHeartbeat(ctx, told)
	return why
}

// giveBack ends the step for now. That this was no failure is told to the try that follows.
func (a *Activities) giveBack(ctx context.Context, upstream string, told rollout.Waiting, why error) error {
	pause := min(leastReturn<<min(told.Returns, 8), mostReturn)
	activity.RecordHeartbeat(ctx, rollout.Waiting{Why: why.Error(), Returns: told.Returns + 1})
	return failure.Later(why, max(pause+rand.N(pause), a.returns.next(upstream)))
}

// waited is what the tries before told of their waiting.
func waited(ctx context.Context) (told rollout.Waiting) {
	if activity.HasHeartbeatDetails(ctx) {
		_ = activity.GetHeartbeatDetails(ctx, &told) // who cannot read it never waited
	}
	return told
}
