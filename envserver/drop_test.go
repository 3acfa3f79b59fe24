package envserver_test

import (
	"bytes"
	"io"
	"net/http"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/envserver"
)

// Connections that are opened and dropped, at every stage and without a goodbye, leave no session behind.
func TestDroppedConnectionsLeaveNothing(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	r := start(t, func(o *envserver.Options) { o.Registerer, o.MaxSessions = registry, 200 })
	for i := range 500 {
		c := r.dial("/ws")
		switch i % 4 {
		case 1:
			c.ask(`{"type":"reset"}`)
		case 2:
			c.send(call("run_rollout", task("left", waits)))
		case 3:
			_, _ = c.NetConn().Write([]byte{0x81, 0xfe}) // the beginning of a frame
		}
		require.NoError(t, c.NetConn().Close())
		if i%100 == 99 { // let the server see it: slots are what is to be tested, not how fast they come free
			r.eventually(func() bool { return gather(t, registry)["sessions"] == 0 }, "all sessions gone")
		}
	}
}

// A client that sends too much is told so.
func TestTooLargeABodyIsToldSo(t *testing.T) {
	t.Parallel()
	r := start(t, func(o *envserver.Options) { o.MaxMessage = 1 << 10 })
	resp, err := http.Post(r.url+"/rollouts", "application/json", io.MultiReader(bytes.NewReader(bytes.Repeat([]byte(" "), 2<<10))))
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, http.StatusRequestEntityTooLarge, resp.StatusCode)
	raw, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Contains(t, object(t, string(raw)), "detail")
}
