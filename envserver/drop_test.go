package envserver_test

import (
	"bytes"
	"io"
	"net/http"
	"runtime"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/envserver"
)

// Connections that are dropped at any stage without a close frame leave no session, no goroutine and no
// memory behind. The test is not parallel because it measures goroutines and memory of the process.
func TestDroppedConnectionsLeaveNothing(t *testing.T) {
	registry := prometheus.NewRegistry()
	r := start(t, func(o *envserver.Options) {
		// pings detect half-open connections
		o.Registerer, o.MaxSessions, o.PingInterval = registry, 1000, 2*time.Second
	})

	const n = 500
	// allocates what the process allocates only once, such as the runtime's descriptors of goroutines
	r.drop(registry, n)

	goroutines, heap := runtime.NumGoroutine(), heapInUse()

	r.drop(registry, n)
	// the condition runs in goroutines too
	r.eventually(func() bool { return runtime.NumGoroutine() < goroutines+10 }, "goroutines ended")
	r.eventually(
		func() bool { return heapInUse()-heap < n*300 },
		"memory given back: a session alone is more than that",
	)
}

// drop opens n connections and abandons each in one of five ways. In the last way the client stays
// connected and sends nothing.
func (r *rig) drop(registry *prometheus.Registry, n int) {
	r.t.Helper()

	var silent []socket

	for i := range n {
		c := r.open("/ws")

		switch i % 5 {
		case 1:
			c.ask(`{"type":"reset"}`)
		case 2:
			c.send(call("run_rollout", task("left", waits)))
		case 3:
			// the beginning of a frame
			_, _ = c.NetConn().Write([]byte{0x81, 0xfe})
		case 4:
			silent = append(silent, c)
			continue
		}

		require.NoError(r.t, c.NetConn().Close())
	}

	r.eventually(func() bool { return metricValues(r.t, registry)["sessions"] == 0 }, "all sessions gone")

	for _, c := range silent {
		require.NoError(r.t, c.NetConn().Close())
	}
}

func heapInUse() int64 {
	runtime.GC()

	var m runtime.MemStats
	runtime.ReadMemStats(&m)

	return int64(m.HeapAlloc)
}

// A client that sends a too large body gets an error with the reason.
func TestTooLargeABodyIsRefused(t *testing.T) {
	t.Parallel()
	r := start(t, func(o *envserver.Options) { o.MaxMessage = 1 << 10 })
	resp, err := http.Post(
		r.url+"/rollouts",
		"application/json",
		io.MultiReader(bytes.NewReader(bytes.Repeat([]byte(" "), 2<<10))),
	)
	require.NoError(t, err)

	defer resp.Body.Close()

	require.Equal(t, http.StatusRequestEntityTooLarge, resp.StatusCode)
	raw, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Contains(t, object(t, string(raw)), "detail")
}
