package host

import (
	"context"
	"log/slog"
	"math"
	"math/rand/v2"
	"time"

	"go.temporal.io/sdk/activity"
	"golang.org/x/time/rate"

	"github.com/rolloutd/rolloutd/internal/clock"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/temporalx/failure"
)

const (
	// readyPause is the time between two looks at an overloaded model endpoint. Up to as much again is
	// added at random, so that waiting rollouts do not look all at once.
	readyPause = time.Second
	// longestStay is how long a rollout waits in a slot of one host. Another host's gateway may admit it sooner.
	longestStay = time.Minute
	// leastReturn, doubled with each retry up to mostReturn, is the pause of a rollout that gave its slot
	// back. It is longer than readyPause because a retry costs Temporal more than a look costs the gateway.
	leastReturn = 2 * time.Second
	mostReturn  = 10 * time.Second
)

// Readiness reports whether a model endpoint takes another rollout: nil, a fault.Exhausted with the reason,
// or an error.
type Readiness interface {
	Ready(ctx context.Context, upstream string) error
}

// Admission delays new rollouts while their model endpoint is overloaded. A rollout that runs would lose
// its agent's time to the wait, and hold a sandbox for it.
//
// At most half of the host's slots wait inside an activity, so that they begin at once when the endpoint
// recovers. The others return their slot, for rollouts of other endpoints, and Temporal retries them later
// on any host. It is safe for concurrent use.
type Admission struct {
	gateway Readiness

	// part of the activity's time that is kept for what follows the wait
	reserve time.Duration

	// holds one element for each slot in which a rollout waits
	waiting chan struct{}
	returns returnPace
}

// NewAdmission makes the admission of a host with that many slots. reserve is the part of an activity's
// time that the wait leaves.
func NewAdmission(g Readiness, slots int, reserve time.Duration) *Admission {
	return &Admission{
		gateway: g,
		reserve: reserve,
		waiting: make(chan struct{}, slots/2),
		returns: returnPace{of: map[string]*rate.Limiter{}},
	}
}

// Failures returns how many earlier tries of the running activity failed. Tries that only returned to wait
// do not count; Temporal's own count includes them, so its retry policy cannot bound failures.
func Failures(ctx context.Context) int {
	return int(activity.GetInfo(ctx).Attempt) - 1 - previousWait(ctx).Returns
}

// Wait returns nil when the endpoint takes another rollout. It is called from an activity, whose heartbeat
// details it uses. mayReturn allows it to end the activity with an error that Temporal retries later. An
// empty upstream is always ready.
func (a *Admission) Wait(ctx context.Context, upstream string, mayReturn bool, log *slog.Logger) error {
	if upstream == "" {
		return nil
	}

	why, before := a.gateway.Ready(ctx, upstream), previousWait(ctx)
	if !fault.Is(why, fault.Exhausted) {
		recordWaitOver(ctx, before)
		return why
	}
	// once per attempt; Temporal shows the rest
	if before == (rollout.Waiting{}) {
		log.WarnContext(ctx, "waiting for the model endpoint", "why", why)
	}

	select {
	case a.waiting <- struct{}{}:
		defer func() { <-a.waiting }()
	default:
		if mayReturn {
			return a.Return(ctx, upstream, why)
		}
	}

	return a.stay(ctx, upstream, mayReturn, before, why)
}

// stay waits in the slot, for longestStay at most where the rollout may return. Its heartbeats count this
// try as a return, so that a worker's death during the wait is not a failure of the activity.
func (a *Admission) stay(
	ctx context.Context,
	upstream string,
	mayReturn bool,
	before rollout.Waiting,
	why error,
) error {
	started, now := time.Now(), rollout.Waiting{Returns: before.Returns + 1}

	for ; fault.Is(why, fault.Exhausted); why = a.gateway.Ready(ctx, upstream) {
		switch {
		case a.timeLeft(ctx) <= 0:
			return failure.Final(why)
		case mayReturn && time.Since(started) > longestStay:
			return a.returnSlot(ctx, upstream, leastReturn, before, why)
		case now.Why != why.Error():
			now.Why = why.Error()
			activity.RecordHeartbeat(ctx, now)
		}

		if err := clock.Sleep(ctx, readyPause+rand.N(readyPause)); err != nil {
			return err
		}
	}

	recordWaitOver(ctx, rollout.Waiting{Why: now.Why, Returns: before.Returns})

	return why
}

// returnSlot ends the activity with an error that Temporal retries after pause at the earliest. The
// heartbeat records that this try did not fail.
func (a *Admission) returnSlot(
	ctx context.Context,
	upstream string,
	pause time.Duration,
	before rollout.Waiting,
	why error,
) error {
	left := a.timeLeft(ctx)
	if left <= 0 {
		return failure.Final(why)
	}

	activity.RecordHeartbeat(ctx, rollout.Waiting{Why: why.Error(), Returns: before.Returns + 1})

	return failure.Later(why, min(left, max(pause+rand.N(pause), a.returns.next(upstream))))
}

// Return ends the running activity with an error that Temporal retries later, on any host, and that is no
// failure of the activity. key names what it waits for; why is shown to people.
func (a *Admission) Return(ctx context.Context, key string, why error) error {
	before := previousWait(ctx)
	return a.returnSlot(ctx, key, min(leastReturn<<min(before.Returns, 8), mostReturn), before, why)
}

// timeLeft is how long the activity may still wait.
func (a *Admission) timeLeft(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return math.MaxInt64
	}

	return time.Until(deadline) - a.reserve
}

// recordWaitOver records that the wait, if there was one, is over: later failures of this try count.
func recordWaitOver(ctx context.Context, before rollout.Waiting) {
	if before.Why != "" {
		activity.RecordHeartbeat(ctx, rollout.Waiting{Returns: before.Returns})
	}
}

// previousWait is what earlier tries of the activity recorded of their wait.
func previousWait(ctx context.Context) (w rollout.Waiting) {
	if activity.HasHeartbeatDetails(ctx) {
		// details that do not decode record no wait
		_ = activity.GetHeartbeatDetails(ctx, &w)
	}

	return w
}
