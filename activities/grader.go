package activities

import (
	"context"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/grading"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
)

// grader grades one attempt.
func (a *Activities) grader(t Target) *grading.Grader {
	return &grading.Grader{Store: a.o.Store, Sandboxes: leased{a: a, target: t}, Logger: a.log, Controls: &a.controls,
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

	sb, release, err := l.a.leases.Attach(ctx, b.Backend, id)

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

	return b.Destroy(ctx, id)
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

	return sb, l.a.leases.Keep(ctx, sb), nil
}
