package activities

import (
	"context"
	"slices"

	"github.com/rolloutd/rolloutd/internal/grading"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
	"github.com/rolloutd/rolloutd/internal/store"
)

// recordCauses records the resource limits that the agent's sandbox reached in a phase that ends, and
// returns them. byHost: the memory that ran out was the host's. A lost sandbox has none.
func (a *Activities) recordCauses(
	ctx context.Context,
	t Target,
	p rollout.Phase,
) (reached []rollout.ResourceCause, byHost bool, err error) {
	b, err := a.backend(t)
	if err != nil {
		return nil, false, err
	}

	use, err := b.Inspect(ctx, t.SandboxID())
	if err != nil || len(sandbox.Causes(use, p, nil)) == 0 {
		return nil, false, nil //nolint:nilerr // a lost sandbox is reported by other calls
	}

	known, err := a.causes(ctx, t)
	if err != nil {
		return nil, false, err
	}

	earlier := slices.DeleteFunc(known, func(c rollout.ResourceCause) bool {
		return c.Phase == p || c.Phase == rollout.PhaseVerifying
	})
	causes := sandbox.Causes(use, p, earlier)

	return causes, use.ByHost, a.keepCauses(ctx, t, p, causes)
}

// keepCauses stores the causes of a phase together with those of the attempt's other phases.
func (a *Activities) keepCauses(ctx context.Context, t Target, p rollout.Phase, causes []rollout.ResourceCause) error {
	if len(causes) == 0 {
		return nil
	}

	known, err := a.causes(ctx, t)
	if err != nil {
		return err
	}

	all := slices.DeleteFunc(known, func(c rollout.ResourceCause) bool { return c.Phase == p })
	for _, c := range causes {
		c.Attempt = t.Attempt
		all = append(all, c)
	}

	a.log.Warn("a sandbox reached its resource limits", "rollout", t.RolloutID, "attempt", t.Attempt, "phase", p,
		"causes", rollout.CausesInWords(causes))

	return a.o.Store.PutJSON(ctx, store.AttemptKey(t.RolloutID, t.Attempt, store.Resources), all)
}

// causes returns the recorded causes of the attempt.
func (a *Activities) causes(ctx context.Context, t Target) ([]rollout.ResourceCause, error) {
	return grading.ReadCauses(ctx, a.o.Store, t)
}

// lastCauses records the causes for an attempt whose agent has no result: it failed in its setup, or
// RunAgent did not return.
func (a *Activities) lastCauses(ctx context.Context, in CollectInput) error {
	if in.Head.AgentRan {
		return nil
	}

	phase := rollout.PhaseSetup

	for _, p := range in.Head.Phases {
		if p.Attempt == in.Attempt && p.Phase == rollout.PhaseAgent {
			phase = p.Phase
		}
	}

	_, _, err := a.recordCauses(ctx, in.Target, phase)

	return err
}
