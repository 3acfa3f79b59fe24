package rollouts

import (
	"context"
	"time"

	"golang.org/x/sync/singleflight"
)

// shared asks Temporal, or the store, once for all who ask the same of one rollout at the same time: hundreds that come again for
// one would queue for its lock in the server. None of them can end that for the others; it ends by itself, within bound.
func shared[T any](ctx context.Context, group *singleflight.Group, id string, bound time.Duration, ask func(context.Context) (T, error)) (T, error) {
	asked := group.DoChan(id, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), bound)
		defer cancel()
		return ask(ctx)
	})
	select {
	case r := <-asked:
		v, _ := r.Val.(T)
		return v, r.Err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}
