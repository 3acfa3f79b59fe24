package activities

import (
	"context"
	"math"
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
	// longestStay is how long a rollout waits on one host, whose gateway may have reasons that others have not.
	longestStay = time.Minute
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
	why, told := a.o.Gateway.Ready(ctx, in.Upstream), waited(ctx)
	if !fault.Is(why, fault.Exhausted) {
		waitOver(ctx, told)
		return why
	}
	if told == (rollout.Waiting{}) { // once for the attempt: Temporal shows how it goes on
		a.loggerOf("CreateSandbox", in.Target).WarnContext(ctx, "waiting for the model endpoint", "why", why)
	}
	select {
	case a.waiting <- struct{}{}:
		defer func() { <-a.waiting }()
	default:
		if in.Tries > 0 {
			return a.giveBack(ctx, in.Upstream, min(leastReturn<<min(told.Returns, 8), mostReturn), told, why)
		}
	}
	return a.stay(ctx, in, told, why)
}

// stay waits in the slot, for a while. What ends the step meanwhile is no failure of its: it would only come back to wait.
func (a *Activities) stay(ctx context.Context, in CreateSandboxInput, told rollout.Waiting, why error) error {
	begun, now := time.Now(), rollout.Waiting{Returns: told.Returns + 1}
	for ; fault.Is(why, fault.Exhausted); why = a.o.Gateway.Ready(ctx, in.Upstream) {
		switch {
		case patience(ctx) <= 0:
			return failure.Final(why)
		case in.Tries > 0 && time.Since(begun) > longestStay:
			return a.giveBack(ctx, in.Upstream, leastReturn, told, why)
		case now.Why != why.Error():
			now.Why = why.Error()
			activity.RecordHeartbeat(ctx, now)
		}
		if err := sleep(ctx, readyPause+rand.N(readyPause)); err != nil {
			return err
		}
	}
	waitOver(ctx, rollout.Waiting{Why: now.Why, Returns: told.Returns})
	return why
}

// giveBack ends the step for the pause at least. That this was no failure is told to the try that follows.
func (a *Activities) giveBack(ctx context.Context, upstream string, pause time.Duration, told rollout.Waiting, why error) error {
	left := patience(ctx)
	if left <= 0 {
		return failure.Final(why)
	}
	activity.RecordHeartbeat(ctx, rollout.Waiting{Why: why.Error(), Returns: told.Returns + 1})
	return failure.Later(why, min(left, max(pause+rand.N(pause), a.returns.next(upstream))))
}

// waitOver tells that the wait, where there was one, is over: what the step fails of from here on is no wait.
func waitOver(ctx context.Context, told rollout.Waiting) {
	if told.Why != "" {
		activity.RecordHeartbeat(ctx, rollout.Waiting{Returns: told.Returns})
	}
}

// patience is how long there is to wait, with time left to make a sandbox in.
func patience(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return math.MaxInt64
	}
	return time.Until(deadline) - createTimeout
}

// waited is what the tries before told of their waiting.
func waited(ctx context.Context) (told rollout.Waiting) {
	if activity.HasHeartbeatDetails(ctx) {
		_ = activity.GetHeartbeatDetails(ctx, &told) // who cannot read it never waited
	}
	return told
}
