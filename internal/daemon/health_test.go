package daemon_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/config"
	"github.com/rolloutd/rolloutd/internal/daemon"
	"github.com/rolloutd/rolloutd/internal/fault"
)

// A full store is in the log, in /healthz and in the metrics, once each time that it becomes full, until it has room.
func TestFullStoreIsShown(t *testing.T) {
	t.Parallel()

	var (
		logged strings.Builder
		full   error
	)

	registry := prometheus.NewPedanticRegistry()
	health, look := daemon.WatchStore(
		func(context.Context) error { return full },
		slog.New(slog.NewTextHandler(&logged, nil)),
		registry,
	)
	page := func() string {
		w := httptest.NewRecorder()
		health.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/healthz", http.NoBody))

		return w.Body.String()
	}
	gauge := func(want string) {
		t.Helper()
		require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(
			"# HELP rolloutd_store_full 1 while the store has no room, so that no rollout starts.\n# TYPE rolloutd_store_full gauge\nrolloutd_store_full "+want+"\n",
		)))
	}

	look()
	require.NotContains(t, page(), "problem")

	full = fault.New(fault.Exhausted, "store is full: its disk has 3 MiB left")

	look()
	look()
	require.Contains(t, page(), `"problem":"store is full: its disk has 3 MiB left"`)
	require.Equal(t, 1, strings.Count(logged.String(), "store is full"))
	gauge("1")

	full = fault.New(fault.Unavailable, "the bucket is away")

	look()
	gauge("1")

	full = nil

	look()
	require.NotContains(t, page(), "problem")
	require.Contains(t, logged.String(), "the store has room again")
	gauge("0")
}

// The check of doctor finds a store without room, and creates none.
func TestCheckStore(t *testing.T) {
	t.Parallel()

	c := config.Defaults()
	c.Data = filepath.Join(t.TempDir(), "data")
	c.Store.MinFreeMiB = 1 << 40
	require.NoError(t, daemon.CheckStore(t.Context(), c))
	require.NoDirExists(t, c.Data)
	c.Data = t.TempDir()
	c.Store.URL = c.Data
	require.ErrorContains(t, daemon.CheckStore(t.Context(), c), "store.min_free_mib")
	c.Store.MinFreeMiB = 1
	require.NoError(t, daemon.CheckStore(t.Context(), c))
}
