package activities

import (
	"context"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/fault"
)

// AbortAgent ends the agent's work at once: first its model calls, so that no further token is generated,
// then the agent. The RunAgent that watches it saves the transcript and returns.
func (a *Activities) AbortAgent(ctx context.Context, in AbortInput) error {
	kind, err := a.o.Agents.Get(in.Agent)
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

	run, err := kind.Attach(ctx, a.env(sb, in.Target), agent.Job{})
	if err != nil {
		return fault.Ignore(err, fault.NotFound)
	}
	defer run.Close()

	return run.Stop(ctx)
}
