package activities

import (
	"context"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/host/network"
	"github.com/rolloutd/rolloutd/internal/sandbox"
	"github.com/rolloutd/rolloutd/internal/store"
)

// withNetwork opens the sandbox's network to the hosts until closed is called. Processes started in the
// returned sandbox have the proxy in their environment. Without hosts it opens nothing.
func (a *Activities) withNetwork(
	ctx context.Context,
	t Target,
	sb *sandbox.Sandbox,
	phase string,
	hosts []string,
) (_ *sandbox.Sandbox, closed func(), err error) {
	if len(hosts) == 0 {
		return sb, func() {}, nil
	}

	if a.o.Network == nil {
		return nil, nil, fault.Field("network.allow", "this host lets no sandbox reach a network")
	}

	b, err := a.backend(t)
	if err != nil {
		return nil, nil, err
	}

	closed, err = a.o.Network.Serve(ctx, b, t.SandboxID(), phase, hosts)
	if err != nil {
		return nil, nil, err
	}

	return sb.WithEnv(network.Env(t.Services)), closed, nil
}

// collectNetwork stores the log of the sandbox's connections.
func (a *Activities) collectNetwork(ctx context.Context, in CollectInput) error {
	if a.o.Network == nil {
		return nil
	}

	log, err := a.o.Network.Log(in.SandboxID())
	if err != nil {
		return err
	}
	defer log.Close()

	_, err = a.o.Store.Put(ctx, store.AttemptKey(in.RolloutID, in.Attempt, store.Network), log)

	return err
}

// forgetNetwork removes the log of the sandbox's connections from this host.
func (a *Activities) forgetNetwork(t Target) error {
	if a.o.Network == nil {
		return nil
	}

	return a.o.Network.Forget(t.SandboxID())
}
