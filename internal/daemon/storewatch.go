package daemon

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// storeLook is the interval between two looks at the room of the store.
const storeLook = 15 * time.Second

// storeWatch shows operators that the store is full, since no rollout starts then: in the log, in /healthz, in the metrics and in the list of
// hosts.
type storeWatch struct {
	full    func(context.Context) error
	log     *slog.Logger
	gauge   prometheus.Gauge
	problem atomic.Value // string; "": the store has room
}

func newStoreWatch(full func(context.Context) error, log *slog.Logger, registry prometheus.Registerer) *storeWatch {
	w := &storeWatch{full: full, log: log, gauge: promauto.With(registry).NewGauge(prometheus.GaugeOpts{
		Name: "rolloutd_store_full", Help: "1 while the store has no room, so that no rollout starts.",
	})}
	w.problem.Store("")
	return w
}

// Problem says why the store takes no rollouts; "": it does, or a nil watch.
func (w *storeWatch) Problem() string {
	if w == nil {
		return ""
	}
	return w.problem.Load().(string)
}

// look compares the room of the store with its high-water marks. An error of the store itself changes nothing.
func (w *storeWatch) look(ctx context.Context) {
	err := w.full(ctx)
	if err != nil && !fault.Is(err, fault.Exhausted) {
		return
	}
	before := w.Problem()
	switch {
	case err == nil && before != "":
		w.log.InfoContext(ctx, "the store has room again")
	case err != nil && before == "":
		w.log.WarnContext(ctx, "no rollout starts", "error", err)
	}
	if err == nil {
		w.problem.Store("")
		w.gauge.Set(0)
		return
	}
	w.problem.Store(err.Error())
	w.gauge.Set(1)
}

// run looks at intervals until ctx ends.
func (w *storeWatch) run(ctx context.Context) error {
	tick := time.NewTicker(storeLook)
	defer tick.Stop()
	for {
		w.look(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
