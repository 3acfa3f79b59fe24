package activities

import (
	"context"

	"github.com/rolloutd/rolloutd/internal/delivery"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Delivery brings finished groups to sinks; *delivery.Deliverer does.
type Delivery interface {
	Status(ctx context.Context, sink string) (delivery.Status, error)
	Deliver(ctx context.Context, spec rollout.DeliverySpec) (rollout.Delivery, error)
	Close(ctx context.Context, sink string) error
}

// SinkInput names a sink.
type SinkInput struct {
	Sink string `json:"sink"`
}

// SinkStatus asks a sink what it can take.
func (a *Activities) SinkStatus(ctx context.Context, in SinkInput) (delivery.Status, error) {
	return a.o.Delivery.Status(ctx, in.Sink)
}

// CloseSink says to a sink that no more groups come for now: a file that is being filled is closed, an environment disconnects.
func (a *Activities) CloseSink(ctx context.Context, in SinkInput) error {
	return a.o.Delivery.Close(ctx, in.Sink)
}

// DeliverGroup delivers a finished group. Its error is retried: what the sink skips or refuses is a Delivery of that state.
func (a *Activities) DeliverGroup(ctx context.Context, spec rollout.DeliverySpec) (rollout.Delivery, error) {
	return a.o.Delivery.Deliver(ctx, spec)
}
