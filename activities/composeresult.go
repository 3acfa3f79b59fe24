package activities

import (
	"context"
	"encoding/json"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout/result"
	"github.com/rolloutd/rolloutd/internal/store"
)

// ComposeResult writes the rollout's Result from the workflow's data and the store. It needs no host, so
// that a rollout that never got one, or lost it, has a result too.
func (a *Activities) ComposeResult(ctx context.Context, in CollectInput) (CollectResult, error) {
	composer := result.Composer{
		Store:  a.o.Store,
		Logger: a.loggerOf("ComposeResult", in.Target),
		Target: in.Target,
		Head:   in.Head,
	}

	res, err := composer.Compose(ctx)
	if err != nil {
		return CollectResult{}, err
	}

	data, err := json.Marshal(res)
	if err != nil {
		return CollectResult{}, fault.Wrap(fault.Internal, err, "encode the result")
	}

	ref, err := a.o.Store.PutBytes(ctx, store.ResultKey(in.RolloutID), data)
	if err != nil {
		return CollectResult{}, err
	}

	if err := a.o.Store.PutJSON(ctx, store.HeadKey(in.RolloutID), res.Head()); err != nil {
		return CollectResult{}, err
	}

	a.meters.rolloutEnded(a.labelsOf(in), in.Head)

	return CollectResult{Result: ref, Usage: res.Usage}, nil
}
