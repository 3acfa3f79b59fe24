package grading

import (
	"context"
	"errors"
	"path"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
	"github.com/rolloutd/rolloutd/internal/store"
)

// SaveWork saves the home of the agent for the next step. A home that cannot be saved because of what the agent has
// put into it is no error here: RestoreWork finds none then.
func (g *Grader) SaveWork(ctx context.Context, t rollout.Target) error {
	err := g.SaveHome(ctx, t)
	if ofAgent(err) {
		g.Logger.WarnContext(ctx, "the work is not saved", "rollout", t.RolloutID, "attempt", t.Attempt, "error", err)
		return nil
	}

	return err
}

// ofAgent reports whether what the agent has put into its home can be the cause of an error; see blame.
func ofAgent(err error) bool {
	var f *failure
	return errors.As(blame(err, ""), &f)
}

// RestoreWork puts the home that attempt from of the rollout has left into the sandbox of attempt t, in which
// nothing has run yet. Of the packages, the verifier of t gets those that it would get after from: what the agent
// has installed meanwhile is not the task's. A home that was not saved or does not fit, because of what the agent has
// put into it, is a fault.SetupFailed.
func (g *Grader) RestoreWork(ctx context.Context, sb *sandbox.Sandbox, t rollout.Target, from int) error {
	earlier := t
	earlier.Attempt = from

	if err := g.copyPackages(ctx, earlier, t); err != nil {
		return err
	}

	content, err := g.Store.Reader(ctx, store.AttemptKey(t.RolloutID, from, store.Home))
	if fault.Is(err, fault.NotFound) {
		return fault.Wrap(fault.SetupFailed, err, "the work of the step before could not be saved")
	}

	if err != nil {
		return err
	}

	defer content.Close()

	if err = sb.Restore(ctx, rollout.Home, content, path.Base(wire.AgentChanged)); ofAgent(err) {
		return fault.Wrap(fault.SetupFailed, err, "restore the work of the step before")
	}

	return err
}

// copyPackages gives an attempt the packages of an earlier one.
func (g *Grader) copyPackages(ctx context.Context, from, to rollout.Target) error {
	content, err := g.Store.Reader(ctx, store.AttemptKey(from.RolloutID, from.Attempt, store.Packages))
	if err != nil {
		return fault.Ignore(err, fault.NotFound)
	}
	defer content.Close()

	_, err = g.Store.Put(ctx, store.AttemptKey(to.RolloutID, to.Attempt, store.Packages), content)

	return err
}
