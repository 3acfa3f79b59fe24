package daemon

import (
	"context"

	"github.com/rolloutd/rolloutd/envserver"
	"github.com/rolloutd/rolloutd/internal/config"
	"github.com/rolloutd/rolloutd/internal/delivery"
	"github.com/rolloutd/rolloutd/internal/delivery/sinks"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// deliverer brings groups to the configured sinks.
func (d *Daemon) deliverer() (*delivery.Deliverer, error) {
	all, err := sinks.Open(d.cfg.Sinks)
	return &delivery.Deliverer{Store: d.store, Sinks: all, Log: d.log}, err
}

type engine = envserver.Deliveries

// knownSinks refuses deliveries to a sink that is not configured: the error is the client's, not a worker's.
type knownSinks struct {
	engine
	sinks map[string]config.Sink
}

func (k knownSinks) Deliver(ctx context.Context, spec rollout.DeliverySpec) (rollout.Delivery, error) {
	if _, ok := k.sinks[spec.Sink]; !ok {
		return rollout.Delivery{}, fault.Field("sink", "no sink %q is configured (sinks in the configuration)", spec.Sink)
	}
	return k.engine.Deliver(ctx, spec)
}
