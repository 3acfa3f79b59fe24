package supervisor

import (
	"context"
	"time"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
	"github.com/rolloutd/rolloutd/internal/host"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/temporalx/failure"
)

const (
	// startWait is how long the first launch may wait for a slot, see host.Starts: about 600 starts of two
	// seconds on one core.
	startWait = 20 * time.Minute
	// minStartWait applies when the caller's deadline leaves less, which an earlier build may have set.
	minStartWait = time.Minute
	// finishTime bounds the end of a watch: ending the route, saving the transcript, stopping the agent.
	finishTime = 2 * time.Minute
)

// MaxTime is the longest that Run takes within the limits. The caller's deadline must not be earlier. Run
// or Decide enforces each part.
func MaxTime(l rollout.Limits) time.Duration {
	return startWait + launchedTime(l)
}

// launchedTime is the part of MaxTime that follows the wait for the first launch.
func launchedTime(l rollout.Limits) time.Duration {
	// relaunches included
	return startGrace + l.Agent + l.Held +
		l.Call + callSlack + l.Held + // a call that is open when the agent's time is up
		gatewayPatience + // the gateway does not answer
		gatewayapi.ProbeTime + // a probe of the endpoint from outside the sandbox
		finishTime
}

// acquireStart waits for a slot of the host to launch the agent. The first launch leaves enough of ctx's
// time for the agent's work; a relaunch waits within the agent's own time. A missing slot is a final error,
// because a retry on this host would wait again.
func (w *watch) acquireStart(ctx context.Context, launch int) (release func(), err error) {
	until := time.Now().Add(startWait)
	if deadline, ok := ctx.Deadline(); ok {
		until = later(deadline.Add(-launchedTime(w.state.Limits)), time.Now().Add(minStartWait))
	}

	if launch > 1 {
		until = w.state.deadline()
	}

	bounded, cancel := context.WithDeadline(ctx, until)
	defer cancel()

	release, err = w.Starts.Acquire(bounded, host.StartAgent)
	if err != nil && ctx.Err() == nil {
		return nil, failure.Final(
			fault.New(fault.Unavailable, "no slot for launch %d of %d of the agent became free on this host in time",
				launch, agent.MaxLaunches),
		)
	}

	return release, err
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}

	return b
}
