package activities

import (
	"context"

	"github.com/rolloutd/rolloutd/internal/delivery"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Delivery delivers finished groups to sinks; *delivery.Deliverer implements it.
type Delivery interface {
	Status(ctx context.Context, sink string) (delivery.Status, error)
	Deliver(ctx context.Context, spec rollout.DeliverySpec) (rollout.Delivery, error)
	Close(ctx context.Context, sink string) error
}

// SinkInput names a sink.
type SinkInput struct {
	Sink string `json:"sink"`
}

// SinkStatus returns what a sink can take.
func (a *Activities) SinkStatus(ctx context.Context, in SinkInput) (delivery.Status, error) {
	return a.o.Delivery.Status(ctx, in.Sink)
}

// CloseSink tells a sink that no more groups follow for now: it closes an open file or disconnects an environment.
func (a *Activities) CloseSink(ctx context.Context, in SinkInput) error {
	return a.o.Delivery.Close(ctx, in.Sink)
}

// DeliverGroup delivers a finished group. Errors are retried. A group that the sink skips or refuses is a
// Delivery of that state, not an error.
func (a *Activities) DeliverGroup(ctx context.Context, spec rollout.DeliverySpec) (rollout.Delivery, error) {
	d, err := a.o.Delivery.Deliver(ctx, spec)
	a.meters.delivered(spec.Sink, d, err)

	return d, err
}
