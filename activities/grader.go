package activities

import (
	"context"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/grading"
	"github.com/rolloutd/rolloutd/internal/host/network"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
)

// grader grades one attempt.
func (a *Activities) grader(t Target) *grading.Grader {
	return &grading.Grader{Store: a.o.Store, Sandboxes: leased{a: a, target: t}, Logger: a.log, Controls: &a.controls,
		CheckServices: func(ctx context.Context, id string) error {
			b, err := a.backend(t)
			if err != nil {
				return err
			}

			return a.checkServices(ctx, b, t, id)
		},
		Network: func(ctx context.Context, sb *sandbox.Sandbox, hosts []string) (*sandbox.Sandbox, func(), error) {
			return a.withNetwork(ctx, t, sb, network.Grading, hosts)
		},
		EndAgent: func(ctx context.Context, sb *sandbox.Sandbox) error { return agent.End(ctx, sb) },
		Command: func(n int, cmd string, res *rollout.CommandResult) {
			command(a.o.Events.Of(t), rollout.StageVerifier, n, cmd, res)
		},
	}
}

// leased creates and finds sandboxes for grading an attempt, and renews their leases.
type leased struct {
	a      *Activities
	target Target
}

// Attach implements grading.Sandboxes.
func (l leased) Attach(ctx context.Context, id string) (*sandbox.Sandbox, func(), error) {
	b, err := l.a.backend(l.target)
	if err != nil {
		return nil, nil, err
	}

	sb, release, err := l.a.attachIn(ctx, b, l.target, id)

	return sb, release, b.OfMemory(ctx, id, err)
}

// CreateVerifier implements grading.Sandboxes.
func (l leased) CreateVerifier(
	ctx context.Context,
	t rollout.Target,
	s rollout.Sandbox,
) (*sandbox.Sandbox, func(), error) {
	return l.create(ctx, t, t.VerifierID(), s)
}

// CreateControl implements grading.Sandboxes.
func (l leased) CreateControl(
	ctx context.Context,
	t rollout.Target,
	s rollout.Sandbox,
) (*sandbox.Sandbox, func(), error) {
	return l.create(ctx, t, t.ControlID(), s)
}

// Destroy implements grading.Sandboxes.
func (l leased) Destroy(ctx context.Context, id string) error {
	b, err := l.a.backend(l.target)
	if err != nil {
		return err
	}

	return destroyWithServices(ctx, b, l.target, id)
}

func (l leased) create(
	ctx context.Context,
	t rollout.Target,
	id string,
	s rollout.Sandbox,
) (*sandbox.Sandbox, func(), error) {
	b, err := l.a.backend(t)
	if err != nil {
		return nil, nil, err
	}

	sb, err := l.a.create(ctx, b, id, s, labels(t, driver.PurposeVerifier))
	if err != nil {
		return nil, nil, err
	}

	if err := l.a.startServices(ctx, b, sb, s, t, driver.PurposeVerifier); err != nil {
		// those of the agent were ready, so the next ones may be
		return nil, nil, l.a.endSandbox(ctx, b, t, id, fault.Wrap(fault.Unavailable, err, "services of the verifier"))
	}

	release := l.a.leases.KeepRenewed(ctx, sb)

	services, err := l.a.keepServices(ctx, b, t, id)
	if err != nil {
		release()
		return nil, nil, err
	}

	return sb, func() { services(); release() }, nil
}
