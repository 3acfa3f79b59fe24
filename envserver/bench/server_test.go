package bench_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rolloutd/rolloutd/envserver"
	"github.com/rolloutd/rolloutd/internal/catalog"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/network/egress"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/trajectory/traceindex"
)

// A process of this test binary serves if serveVariable is set, at the address in addressVariable. The
// values of serveVariable select the server.
const (
	serveVariable   = "ROLLOUTD_BENCH_SERVE"
	addressVariable = "ROLLOUTD_BENCH_ADDRESS"
	serveEdge       = "edge"

	// the edge with pings, so that it finds half-open connections
	serveDropped = "dropped"
	serveEcho    = "echo"
	insidesPath  = "/insides"
)

func TestMain(m *testing.M) {
	if what := os.Getenv(serveVariable); what != "" {
		if err := serve(what, os.Getenv(addressVariable)); err != nil {
			slog.Error("serve", "error", err)
			os.Exit(1)
		}

		return
	}

	os.Exit(m.Run())
}

func serve(what, address string) error {
	mux := http.NewServeMux()

	var err error

	switch what {
	case serveEcho:
		mux.HandleFunc("/ws", echo)
	case serveDropped:
		err = edge(mux, 2*time.Second)
	default:
		err = edge(mux, time.Hour)
	}

	if err != nil {
		return err
	}

	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	// The server runs until the test ends its process.
	return (&http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}).Serve(l)
}

// echo is a minimal WebSocket server.
func echo(w http.ResponseWriter, r *http.Request) {
	c, err := (&websocket.Upgrader{}).Upgrade(w, r, nil)
	if err != nil {
		return
	}
	defer c.Close()

	for {
		kind, frame, err := c.ReadMessage()
		if err != nil || c.WriteMessage(kind, frame) != nil {
			return
		}
	}
}

func edge(mux *http.ServeMux, pings time.Duration) error {
	registry := prometheus.NewRegistry()

	srv, err := envserver.New(envserver.Options{
		Registerer: registry,
		Rollouts:   none{}, MaxSessions: 20_000, PingInterval: pings,
		Resolve: catalog.New(os.Getenv, egress.Policy{}).Resolve, Seal: func(s string) string { return s },
	})
	if err != nil {
		return err
	}

	mux.Handle("/", srv)
	mux.HandleFunc(insidesPath, func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(look(registry))
	})

	return nil
}

func look(registry *prometheus.Registry) insides {
	in := insides{Sessions: -1, Goroutines: runtime.NumGoroutine()}
	// missing values stay -1
	families, _ := registry.Gather()
	for _, f := range families {
		if f.GetName() == "rolloutd_envserver_sessions" {
			in.Sessions = int(f.GetMetric()[0].GetGauge().GetValue())
		}
	}

	runtime.GC()

	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	in.Heap, in.Stacks = int64(m.HeapAlloc), int64(m.StackInuse)

	return in
}

// none is an engine without rollouts: the benchmark measures the edge only.
type none struct{}

func missing(id string) error { return fault.New(fault.NotFound, "no rollout %q", id) }

func (none) Owner(context.Context, string) (string, error) { return "", nil }
func (none) Start(_ context.Context, s rollout.Spec) (rollout.State, error) {
	return rollout.State{}, fmt.Errorf("rollout %q: this engine starts none", s.ID)
}
func (none) State(_ context.Context, id string) (rollout.State, error) {
	return rollout.State{}, missing(id)
}
func (none) Wait(_ context.Context, id string) (rollout.Result, error) {
	return rollout.Result{}, missing(id)
}
func (none) Index(_ context.Context, id string, _ func(*traceindex.Index) error) error {
	return missing(id)
}
func (none) Events(context.Context, string, int64, func([]rollout.Event) error) error { return nil }

func (none) Messages(_ context.Context, id string) (rollout.Transcript, error) {
	return rollout.Transcript{}, missing(id)
}
func (none) Abort(_ context.Context, id, _ string) (bool, error) { return false, missing(id) }
func (none) List(context.Context, rollout.Filter) (rollout.Page, error) {
	return rollout.Page{}, nil
}
func (none) Spec(_ context.Context, id string) (rollout.Spec, error) {
	return rollout.Spec{}, missing(id)
}
func (none) TaskFiles(_ context.Context, id string) (map[string]string, error) {
	return nil, missing(id)
}
func (none) Counts(context.Context, rollout.Filter) (rollout.Counts, error) {
	return rollout.Counts{}, nil
}
func (none) Open(_ context.Context, id, _ string) (io.ReadCloser, error) { return nil, missing(id) }
