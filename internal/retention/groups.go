package retention

import (
	"context"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/producer"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/store"
)

// groups reports whether a trainer may still need the rollouts of a group.
type groups struct {
	store *store.Store

	// keys of groups with deliveries
	open, ended map[string]bool

	// see Policy
	undelivered bool

	// by id
	reasons map[string]Reason
}

// keeps returns why the rollouts of a group are kept; "": they need not be.
func (g *groups) keeps(ctx context.Context, id string) (Reason, error) {
	if reason, ok := g.reasons[id]; ok {
		return reason, nil
	}

	reason, err := g.judge(ctx, id)
	if err == nil {
		g.reasons[id] = reason
	}

	return reason, err
}

func (g *groups) judge(ctx context.Context, id string) (Reason, error) {
	var state rollout.GroupState

	err := g.store.JSON(ctx, store.GroupKey(id), &state)
	if fault.Is(err, fault.NotFound) {
		return GroupRuns, nil
	}

	if err != nil {
		return "", err
	}

	switch key := state.Key(); {
	case g.open[key]:
		return Unacknowledged, nil
	case g.ended[key], g.undelivered:
		return "", nil
	}

	return g.producerOf(ctx, id)
}

// producerOf keeps a group that a producer has yet to deliver. Names alone tell which groups are a producer's, and only
// a producer that has ended is in the store.
func (g *groups) producerOf(ctx context.Context, id string) (Reason, error) {
	producers := producer.OfGroup(id)
	for _, p := range producers {
		if there, err := g.store.Exists(ctx, store.ProducerKey(p)); err != nil || there {
			return "", err
		}
	}

	if len(producers) > 0 {
		return ProducerRuns, nil
	}

	return "", nil
}
