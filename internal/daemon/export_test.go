package daemon

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"

	"github.com/rolloutd/rolloutd/internal/config"
	"github.com/rolloutd/rolloutd/internal/daemon/images"
	"github.com/rolloutd/rolloutd/internal/store"
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

	return h, func() { w.checkRoom(context.Background()) }
}

// Tidy does once what servers and workers do at intervals, so that nothing grows for ever.
func Tidy(ctx context.Context, c config.Config, s *store.Store) error {
	d := &Daemon{cfg: c, store: s, log: slog.New(slog.DiscardHandler)}
	d.expire(ctx)

	if err := d.retention().Apply(ctx, time.Now()); err != nil {
		return err
	}

	index, err := d.openSearch(ctx)
	if err != nil {
		return err
	}

	if err := errors.Join(index.index.Update(ctx), index.Close()); err != nil {
		return err
	}

	on, err := images.Open(c, d.log)
	if err != nil {
		return err
	}

	_, err = on.Collect(time.Now())

	return err
}

// NewRestarts returns the workers' interceptor.
func NewRestarts() interceptor.WorkerInterceptor { return newRestarts() }

// CheckSink is checkSink, exported for its test.
func CheckSink(all map[string]config.Sink, name string) error { return checkSink(all, name) }

// SetTemporal takes the place of the tier of Temporal's client.
func (d *Daemon) SetTemporal(c client.Client) { d.temporal = c }
