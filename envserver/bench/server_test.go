package bench_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/rolloutd/rolloutd/envserver"
	"github.com/rolloutd/rolloutd/internal/catalog"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// serveVariable makes a process of this test the server that is measured, at the address it holds.
const serveVariable = "ROLLOUTD_BENCH_SERVE"

func TestMain(m *testing.M) {
	if address := os.Getenv(serveVariable); address != "" {
		if err := serve(address); err != nil {
			slog.Error("serve", "error", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func serve(address string) error {
	registry := prometheus.NewRegistry()
	edge, err := envserver.New(envserver.Options{
		Registerer: registry,
		Rollouts:   none{}, MaxSessions: 20_000, PingInterval: time.Hour,
		Resolve: catalog.New(os.Getenv).Resolve, Seal: func(s string) string { return s },
	})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.Handle("/", edge)
	// It ends with the process, which the test ends.
	return (&http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}).Serve(l)
}

// none is an engine without rollouts: what is measured is the edge.
type none struct{}

func missing(id string) error { return fault.New(fault.NotFound, "no rollout %q", id) }

func (none) Start(_ context.Context, s rollout.Spec) (rollout.State, error) {
	return rollout.State{}, fmt.Errorf("rollout %q: this engine starts none", s.ID)
}
func (none) State(_ context.Context, id string) (rollout.State, error) {
	return rollout.State{}, missing(id)
}
func (none) Wait(_ context.Context, id string) (rollout.Result, error) {
	return rollout.Result{}, missing(id)
}
func (none) Messages(_ context.Context, id string) (rollout.Transcript, error) {
	return rollout.Transcript{}, missing(id)
}
func (none) Abort(_ context.Context, id, _ string) (bool, error) { return false, missing(id) }
func (none) List(context.Context, rollout.Filter) (rollout.Page, error) {
	return rollout.Page{}, nil
}
func (none) Open(_ context.Context, id, _ string) (io.ReadCloser, error) { return nil, missing(id) }
