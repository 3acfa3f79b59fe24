package activities

import (
	"context"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/host/network"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/tool"
)

// HoldSandbox keeps the sandbox of an ended agent open until it is canceled, and lets the client that
// grades call any tool in it, with the network that the agent had. It first stores the trace so far, so that the client
// can read it.
func (a *Activities) HoldSandbox(ctx context.Context, in HoldInput) error {
	ctx, over, err := a.acquireAttempt(ctx, in.Target)
	if err != nil {
		return err
	}
	defer over()

	err = a.collectTrace(ctx, CollectInput{
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
		Target: in.Target, Episode: &rollout.Episode{EnabledToolsets: []string{tool.All}},
	}, true)
	if err != nil {
		return err
	}
	defer closeEpisode()
	// from here on a client that follows the events can score
	a.phase(in.Target, rollout.PhaseScoring)
	<-ctx.Done()

	return fault.Wrap(fault.Unavailable, context.Cause(ctx), "hold the sandbox")
}
