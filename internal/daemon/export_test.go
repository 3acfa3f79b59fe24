package daemon

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"go.temporal.io/sdk/interceptor"

	"github.com/rolloutd/rolloutd/internal/config"
)

// Exported to test single parts: Run would need a Temporal cluster, a sandbox and root.
var (
	CapacityOf      = capacityOf
	AccountOf       = accountOf
	Admit           = admit
	CheckGatewayKey = checkGatewayKey
	ReadTokens      = readTokens

	ExpireSessions = (*Daemon).expireSessions
	WorkflowQueue  = (*Daemon).workflowQueue
)

// WatchStore returns the page /healthz of a watched store, and a function that looks once.
func WatchStore(
	full func(context.Context) error,
	log *slog.Logger,
	registry prometheus.Registerer,
) (page http.Handler, look func()) {
	h, w := newHealth(), newStoreWatch(full, log, registry)
	h.problem.Store(w.Problem)

	return h, func() { w.look(context.Background()) }
}

// NewRestarts returns the workers' interceptor.
func NewRestarts() interceptor.WorkerInterceptor { return newRestarts() }

// CheckSink is checkSink, exported for its test.
func CheckSink(all map[string]config.Sink, name string) error { return checkSink(all, name) }
