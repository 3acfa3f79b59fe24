package daemon

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rolloutd/rolloutd/envserver"
	"github.com/rolloutd/rolloutd/internal/config"
	"github.com/rolloutd/rolloutd/internal/daemon/tier"
	"github.com/rolloutd/rolloutd/internal/delivery"
	"github.com/rolloutd/rolloutd/internal/delivery/queue"
	"github.com/rolloutd/rolloutd/internal/delivery/trainerapi"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/network/listen"
	"github.com/rolloutd/rolloutd/internal/producer"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// deliverer delivers groups to the configured sinks.
func (d *Daemon) deliverer() (*delivery.Deliverer, error) {
	all, err := openSinks(d.cfg.Sinks, sinkOptions{Store: d.store, Log: d.log})
	return &delivery.Deliverer{Store: d.store, Sinks: all, Log: d.log}, err
}

type engine = envserver.Deliveries

// knownSinks refuses deliveries to a sink that is not configured: the error is the client's, not a worker's.
type knownSinks struct {
	engine
	sinks map[string]config.Sink
}

func (k knownSinks) Deliver(ctx context.Context, spec rollout.DeliverySpec) (rollout.Delivery, error) {
	if err := checkSink(k.sinks, spec.Sink); err != nil {
		return rollout.Delivery{}, err
	}

	return k.engine.Deliver(ctx, spec)
}

// trainerAPITier serves scored groups to trainers, and keeps them in the data folder.
func (d *Daemon) trainerAPITier() tier.Tier {
	return tier.Tier{Name: "trainer API", Budget: 10 * time.Second, Start: func(_ context.Context, parts *tier.Parts) error {
		c := d.cfg.TrainerAPI
		if !config.Loopback(c.Listen) && len(c.Tokens) == 0 {
			return fault.Field("trainer_api.tokens", "must be set to listen on %s", c.Listen)
		}

		if err := os.MkdirAll(filepath.Dir(d.cfg.TrainerQueueFile()), 0o700); err != nil {
			return err
		}

		q, err := queue.Open(queue.Options{Path: d.cfg.TrainerQueueFile()})
		if err != nil {
			return err
		}

		parts.OnClose(q.Close)

		l, err := listen.TCP("the trainer API", c.Listen, "trainer_api.listen (ROLLOUTD_TRAINER_API_LISTEN, --listen)")
		if err != nil {
			return err
		}

		d.at.TrainerAPI = l.Addr().String()
		handler := trainerapi.New(trainerapi.Options{Queue: q, Log: d.log})

		var tokens []envserver.Token
		for _, text := range c.Tokens {
			tokens = append(tokens, envserver.PlainToken(text))
		}

		if len(tokens) == 0 {
			handler = tier.OwnHost(c.Hosts, handler)
		}

		parts.Add(tier.ServeHTTP(l, admit(tokens, handler)))

		return nil
	}}
}

type producers = envserver.Producers

// checkSink refuses the name of a sink that is not configured. The error lists the configured names.
func checkSink(sinks map[string]config.Sink, name string) error {
	if _, ok := sinks[name]; ok {
		return nil
	}

	if len(sinks) == 0 {
		return fault.Field("sink", "no sink %q: the configuration has no sinks", name)
	}

	return fault.Field("sink", "must be one of %s; got %q", strings.Join(slices.Sorted(maps.Keys(sinks)), ", "), name)
}

// sinkProducers refuses producers for a sink that is not configured.
type sinkProducers struct {
	producers
	sinks map[string]config.Sink
}

func (p sinkProducers) StartProducer(ctx context.Context, spec producer.Spec) (producer.State, error) {
	if err := checkSink(p.sinks, spec.Sink); err != nil {
		return producer.State{}, err
	}

	return p.producers.StartProducer(ctx, spec)
}

// taskSets are the paths of the configured task sets by name.
func (d *Daemon) taskSets() map[string]string {
	paths := map[string]string{}
	for name, s := range d.cfg.TaskSets {
		paths[name] = s.Path
	}

	return paths
}
