package activities

import (
	"context"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/store"
)

// snapshot puts the home, as the agent left it, into the store, once. Every process of the sandbox is dead before, so that it
// shows one moment.
func (a *Activities) snapshot(ctx context.Context, t Target) error {
	key := store.AttemptKey(t.RolloutID, t.Attempt, store.Home)
	if done, err := a.o.Store.Exists(ctx, key); err != nil || done {
		return err
	}
	sb, release, err := a.attach(ctx, t.SandboxID())
	if err != nil {
		return err
	}
	defer release()
	if err := sb.KillAll(ctx); err != nil {
		return err
	}
	home, err := sb.GetTar(ctx, rollout.Home)
	if err != nil {
		return err
	}
	defer home.Close()
	if _, err := a.o.Store.Put(ctx, key, home); err != nil {
		return fault.Wrap(fault.KindOf(err), err, "save the workspace")
	}
	return nil
}
