package activities

import (
	"context"

	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/store"
)

// StoreGroup writes how a group ended. A retry writes the same again.
func (a *Activities) StoreGroup(ctx context.Context, g rollout.GroupState) error {
	return a.o.Store.PutJSON(ctx, store.GroupKey(g.ID), g)
}
