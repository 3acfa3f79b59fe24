package access

import (
	"context"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Deliveries is what the edge needs of the engine that delivers groups to sinks.
type Deliveries interface {
	// Deliver starts the delivery of a finished group, or finds it; fault.Conflict for a group that runs.
	Deliver(ctx context.Context, spec rollout.DeliverySpec) (rollout.Delivery, error)
	// Delivery returns the state of a delivery; fault.NotFound when there is none.
	Delivery(ctx context.Context, spec rollout.DeliverySpec) (rollout.Delivery, error)
	// Deliveries lists deliveries a page at a time: those that have not ended, then the others, oldest group first.
	Deliveries(ctx context.Context, f rollout.DeliveryFilter) (rollout.DeliveryPage, error)
}

// NewOwnedDeliveries returns the deliveries of all as each caller may see them: those of its own groups,
// and all to operators.
func NewOwnedDeliveries(all Deliveries, groups Groups) Deliveries {
	return ownedDeliveries{all, ownedGroups{all: groups}}
}

type ownedDeliveries struct {
	all    Deliveries
	groups ownedGroups
}

func (o ownedDeliveries) Deliver(ctx context.Context, spec rollout.DeliverySpec) (rollout.Delivery, error) {
	if err := o.groups.check(ctx, spec.GroupID); err != nil {
		return rollout.Delivery{}, err
	}

	return o.all.Deliver(ctx, spec)
}

func (o ownedDeliveries) Delivery(ctx context.Context, spec rollout.DeliverySpec) (rollout.Delivery, error) {
	if err := o.groups.check(ctx, spec.GroupID); err != nil {
		return rollout.Delivery{}, err
	}

	return o.all.Delivery(ctx, spec)
}

func (o ownedDeliveries) Deliveries(ctx context.Context, f rollout.DeliveryFilter) (rollout.DeliveryPage, error) {
	if caller := CallerOf(ctx); caller.Scope != ScopeOperator {
		f.Owner = caller.Name
	}

	return o.all.Deliveries(ctx, f)
}
