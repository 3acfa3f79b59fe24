package access

import (
	"context"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Regrades is the edge's interface of the engine that grades the saved work of finished rollouts again.
type Regrades interface {
	// Regrade starts a regrade, or finds the one with that id; fault.Conflict if the rollout cannot be graded again.
	Regrade(ctx context.Context, id string, req rollout.RegradeRequest) (rollout.Regrade, error)
	// WaitRegrade returns a regrade once it has ended, or as it is when ctx ends; fault.NotFound for an unknown id.
	WaitRegrade(ctx context.Context, id, regradeID string) (rollout.Regrade, error)
	// Regrades returns those of a rollout that have ended, oldest first.
	Regrades(ctx context.Context, id string) (rollout.Regrades, error)
}

// NewOwnedRegrades returns the regrades of all as each caller may see them: those of its own rollouts, and all to
// operators. rollouts must be those of NewOwned.
func NewOwnedRegrades(all Regrades, rollouts Rollouts) Regrades { return ownedRegrades{all, rollouts} }

type ownedRegrades struct {
	all      Regrades
	rollouts Rollouts
}

// Regrade starts the regrade of one of the caller's rollouts in a sandbox within the limits of its token.
func (o ownedRegrades) Regrade(ctx context.Context, id string, req rollout.RegradeRequest) (rollout.Regrade, error) {
	caller := CallerOf(ctx)
	if err := req.Task.Sandbox.CheckMax(caller.MaxSandbox); err != nil {
		return rollout.Regrade{}, err
	}

	if _, err := o.rollouts.Owner(ctx, id); err != nil {
		return rollout.Regrade{}, err
	}

	// whose uploads it may have
	req.Task.Owner = caller.Name

	return o.all.Regrade(ctx, id, req)
}

func (o ownedRegrades) WaitRegrade(ctx context.Context, id, regradeID string) (rollout.Regrade, error) {
	if _, err := o.rollouts.Owner(ctx, id); err != nil {
		return rollout.Regrade{}, err
	}

	return o.all.WaitRegrade(ctx, id, regradeID)
}

func (o ownedRegrades) Regrades(ctx context.Context, id string) (rollout.Regrades, error) {
	if _, err := o.rollouts.Owner(ctx, id); err != nil {
		return rollout.Regrades{}, err
	}

	return o.all.Regrades(ctx, id)
}
