package daemon

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/rolloutd/rolloutd/internal/clock"
	"github.com/rolloutd/rolloutd/internal/fault"
)

// health serves /healthz: 200 while all tiers run, else 503 with the state of the process. A problem that
// does not keep the process from working, such as a full store, is in the answer.
type health struct {
	state atomic.Value

	// func() string: what operators should look at although the process works
	problem atomic.Value
}

func newHealth() *health {
	h := &health{}
	h.set("starting")

	return h
}

func (h *health) set(state string) { h.state.Store(state) }

func (h *health) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	state := h.state.Load().(string)

	w.Header().Set("Content-Type", "application/json")

	if state != "ready" {
		w.WriteHeader(http.StatusServiceUnavailable)
	}

	answer := map[string]string{"status": state}
	if problem, _ := h.problem.Load().(func() string); problem != nil && problem() != "" {
		answer["problem"] = problem()
	}
	// the client is gone
	_ = json.NewEncoder(w).Encode(answer)
}

// storeLook is the interval between two looks at the room of the store.
const storeLook = 15 * time.Second

// storeWatch shows operators that the store is full, since no rollout starts then: in the log, in /healthz,
// in the metrics and in the list of hosts.
type storeWatch struct {
	full  func(context.Context) error
	log   *slog.Logger
	gauge prometheus.Gauge

	// string; "": the store has room
	problem atomic.Value
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

// checkRoom compares the room of the store with its high-water marks. An error of the store itself changes nothing.
func (w *storeWatch) checkRoom(ctx context.Context) {
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
	for {
		w.checkRoom(ctx)

		if clock.Sleep(ctx, storeLook) != nil {
			return nil
		}
	}
}
