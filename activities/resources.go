package activities

import (
	"context"
	"slices"

	"github.com/rolloutd/rolloutd/internal/grading"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
	"github.com/rolloutd/rolloutd/internal/store"
)

// ranOut records which bounds the agent's sandbox reached in a phase that ends, and returns them. A lost sandbox
// has no causes.
func (a *Activities) ranOut(ctx context.Context, t Target, p rollout.Phase) ([]rollout.ResourceCause, error) {
	b, err := a.backend(t)
	if err != nil {
		return nil, err
	}
	use, err := b.Inspect(ctx, t.SandboxID())
	if err != nil || len(sandbox.Causes(use, p, nil)) == 0 {
		return nil, nil //nolint:nilerr // a lost sandbox is known by other means
	}
	known, err := a.causes(ctx, t)
	if err != nil {
		return nil, err
	}
	earlier := slices.DeleteFunc(known, func(c rollout.ResourceCause) bool { return c.Phase == p || c.Phase == rollout.PhaseVerifying })
	causes := sandbox.Causes(use, p, earlier)
	return causes, a.keepCauses(ctx, t, p, causes)
}

// keepCauses stores the causes of a phase beside those of the attempt's other phases.
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
	a.log.Warn("a sandbox reached its bounds", "rollout", t.RolloutID, "attempt", t.Attempt, "phase", p, "causes", rollout.CausesInWords(causes))
	return a.o.Store.PutJSON(ctx, store.AttemptKey(t.RolloutID, t.Attempt, store.Resources), all)
}

// causes are those that are recorded of the attempt.
func (a *Activities) causes(ctx context.Context, t Target) ([]rollout.ResourceCause, error) {
	return grading.ReadCauses(ctx, a.o.Store, t)
}

// lastCauses records what ran out in the sandbox of an attempt whose agent has no result: in its setup, or before its agent was watched to
// its end.
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
	_, err := a.ranOut(ctx, in.Target, phase)
	return err
}

// addCauses adds what ran out in the sandboxes of all attempts.
func (a *Activities) addCauses(ctx context.Context, in CollectInput, res *rollout.Result) error {
	for _, attempt := range in.Head.Attempts {
		causes, err := a.causes(ctx, Target{RolloutID: in.RolloutID, Attempt: attempt.Number})
		if err != nil {
			return err
		}
		res.ResourceCauses = append(res.ResourceCauses, causes...)
	}
	return nil
}
