package activities

import (
	"context"
	"time"

	"github.com/rolloutd/rolloutd/internal/clock"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/host/network"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
	"github.com/rolloutd/rolloutd/internal/tool"
)

// holdLook is the time between two looks at a sandbox that is held, if its lease is not shorter. The client need not
// make a call that would fail.
const holdLook = 10 * time.Second

// HoldSandbox keeps the sandbox of an ended agent open until the next activity of the attempt begins, and lets the
// client that grades call any tool in it, with the network that the agent had. It first stores the trace so far, so
// that the client can read it. The loss of the sandbox, or of that of a service beside it, is a fault.SandboxLost. If
// its memory ran out, it is a fault.OutOfMemory: else a policy could discard an attempt by exhausting memory.
func (a *Activities) HoldSandbox(task context.Context, in HoldInput) error {
	ctx, over, err := a.acquireAttempt(task, in.Target)
	if err != nil {
		return err
	}
	defer over()

	b, err := a.backend(in.Target)
	if err != nil {
		return err
	}

	err = b.OfMemory(ctx, in.SandboxID(), a.hold(ctx, in))
	if ctx.Err() != nil && task.Err() == nil {
		// the next activity of the attempt has begun, as after a score
		return nil
	}

	return err
}

// hold returns when the sandbox is lost or ctx ends.
func (a *Activities) hold(ctx context.Context, in HoldInput) error {
	err := a.collectTrace(ctx, CollectInput{
		Target:  in.Target,
		Proxied: in.Proxied,
		Head:    Head{Mode: in.Mode, Outcome: rollout.Completed},
	})
	if err != nil {
		return err
	}

	sb, release, err := a.attach(ctx, in.Target)
	if err != nil {
		return err
	}
	defer release()

	sb, offline, err := a.withNetwork(ctx, in.Target, sb, network.Grading, in.Network.ForAgent())
	if err != nil {
		return err
	}
	defer offline()

	_, closeEpisode, err := a.openEpisode(ctx, sb, &AgentInput{
		Target: in.Target, Network: in.Network, Episode: &rollout.Episode{EnabledToolsets: []string{tool.All}},
	}, true)
	if err != nil {
		return err
	}
	defer closeEpisode()

	watched, unwatch, err := a.watchServices(ctx, in.Target)
	if err != nil {
		return err
	}
	defer unwatch()

	// from here on a client that follows the events can score
	a.phase(in.Target, rollout.PhaseScoring)

	return lostService(ctx, watched, a.awaitLoss(watched, sb))
}

// awaitLoss returns when the sandbox is lost or ctx ends.
func (a *Activities) awaitLoss(ctx context.Context, sb *sandbox.Sandbox) error {
	for clock.Sleep(ctx, min(holdLook, a.o.Lease)) == nil {
		if _, err := sb.Info(ctx); fault.Is(err, fault.SandboxLost) {
			return err
		}
	}

	return fault.Wrap(fault.Unavailable, context.Cause(ctx), "hold the sandbox")
}
