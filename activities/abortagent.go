package activities

import (
	"context"

	"github.com/rolloutd/rolloutd/internal/agent"
)

// AbortAgent ends the agent's work at once: first the model calls, so that no token is generated any more, then the agent. The
// RunAgent that watches it saves what there is and returns.
func (a *Activities) AbortAgent(ctx context.Context, in AbortInput) error {
	kit, err := a.agentOf(in.Agent)
	if err != nil {
		return err
	}
	if err := a.o.Gateway.End(ctx, in.SandboxID(), in.Reason); err != nil {
		return err
	}
	sb, release, err := a.attach(ctx, in.Target)
	if err != nil {
		return err
	}
	defer release()
	launch, err := lastLaunch(ctx, sb)
	if err != nil || launch == 0 {
		return err
	}
	return kit.Stop(ctx, sb, agent.Job{Launch: launch})
}
