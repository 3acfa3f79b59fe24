package rollouts

import (
	"context"
	"time"

	"golang.org/x/sync/singleflight"
)

// shared makes one call to Temporal or the store for all concurrent callers with the same id: hundreds of
// callers for one rollout would otherwise queue for its lock in the server. The call ends within bound; no
// caller's context ends it for the others.
func shared[T any](
	ctx context.Context,
	group *singleflight.Group,
	id string,
	bound time.Duration,
	call func(context.Context) (T, error),
) (T, error) {
	result := group.DoChan(id, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), bound)
		defer cancel()

		return call(ctx)
	})
	select {
	case r := <-result:
		v, _ := r.Val.(T)
		return v, r.Err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}
