package activities

import (
	"context"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
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
	return a.save(ctx, sb, rollout.Home, key)
}

// savePackages puts what setup installed for the user into the store, once, and an empty archive where that is nothing: a run
// of RunSetup that was given up may come late, and must not take what the agent has put there since.
func (a *Activities) savePackages(ctx context.Context, sb *sandbox.Sandbox, t Target) error {
	key := store.AttemptKey(t.RolloutID, t.Attempt, store.Packages)
	if done, err := a.o.Store.Exists(ctx, key); err != nil || done {
		return err
	}
	err := a.save(ctx, sb, rollout.Packages, key)
	if fault.Is(err, fault.NotFound) {
		_, err = a.o.Store.Put(ctx, key, folders())
	}
	return err
}

// save puts a folder of the sandbox into the store.
func (a *Activities) save(ctx context.Context, sb *sandbox.Sandbox, folder, key string) error {
	content, err := sb.GetTar(ctx, folder)
	if err != nil {
		return err
	}
	defer content.Close()
	_, err = a.o.Store.Put(ctx, key, content)
	return fault.Wrap(fault.KindOf(err), err, "save %s", folder)
}
