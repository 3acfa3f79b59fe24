package envserver_test

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/envserver"
)

// Over WS /mcp replies have ids: the next request is answered at once, and the long request when it is
// done. The late reply to a request without an id is dropped.
func TestLateReplyOfAnMCPSocket(t *testing.T) {
	t.Parallel()
	r := start(t, func(o *envserver.Options) { o.GiveUp = -1 })
	c := r.dial("/mcp")
	c.send(
		`{"jsonrpc":"2.0","id":"long","method":"tools/call","params":{"name":"run_rollout","arguments":{"endpoint":"vllm","instruction":"wait","rollout_id":"a"}}}`,
	)
	r.started("a")
	require.Equal(t, "quick", object(t, c.ask(`{"jsonrpc":"2.0","id":"quick","method":"tools/list"}`))["id"])
	r.fake.finish("a")

	late := object(t, c.read())
	require.Equal(t, "long", late["id"])
	require.Contains(t, valueAt(t, late, "result", "data"), `"outcome":"completed"`)

	c.send(
		`{"jsonrpc":"2.0","method":"tools/call","params":{"name":"run_rollout","arguments":{"endpoint":"vllm","instruction":"wait","rollout_id":"b"}}}`,
	)
	r.started("b")
	require.Equal(t, "next", object(t, c.ask(`{"jsonrpc":"2.0","id":"next","method":"tools/list"}`))["id"])
	require.False(t, r.fake.aborted("b"))
}

// A client that gave up is still connected: its rollout continues even with on_disconnect "abort", and is
// aborted when the connection closes.
func TestGivingUpIsNotDisconnecting(t *testing.T) {
	t.Parallel()
	r := start(t, func(o *envserver.Options) { o.GiveUp = -1 })
	c := r.dial("/ws")
	c.send(call("run_rollout", task("r", waits, "on_disconnect", "abort")))
	r.started("r")
	require.Equal(t, []any{"r"}, valueAt(t, object(t, c.ask(`{"type":"state"}`)), "data", "rollouts"))
	require.False(t, r.fake.aborted("r"))
	require.NoError(t, c.Close())
	r.eventually(func() bool { return r.fake.aborted("r") }, "aborted")
}

// While a call over HTTP waits, the server sends blanks. The reply follows, and is valid JSON with the blanks in front.
func TestBlanksKeepALongCallAlive(t *testing.T) {
	t.Parallel()

	const args = `{"endpoint":"vllm","instruction":"wait","rollout_id":"r"}`
	for path, tc := range map[string]struct{ body, accept, has string }{
		"/mcp":        {`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run_rollout","arguments":` + args + `}}`, "", `"is_error":false`},
		"/mcp proper": {`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run_rollout","arguments":` + args + `}}`, "application/json, text/event-stream", `"content":[`},
		"/step":       {`{"action":{"tool_name":"run_rollout","arguments":` + args + `}}`, "", `"observation":{`},
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			r := start(t, func(o *envserver.Options) { o.PingInterval = time.Millisecond })
			path, _, _ := strings.Cut(path, " ")
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+path, strings.NewReader(tc.body))
			require.NoError(t, err)
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Accept", tc.accept)
			// returns after the first blank
			res, err := http.DefaultClient.Do(req)
			require.NoError(t, err)

			defer res.Body.Close()

			require.Equal(t, http.StatusOK, res.StatusCode)
			require.Equal(t, "application/json", res.Header.Get("Content-Type"))

			body := bufio.NewReader(res.Body)
			for range 3 {
				blank, err := body.ReadByte()
				require.NoError(t, err)
				require.Equal(t, byte(' '), blank)
			}

			r.started("r")
			r.fake.finish("r")

			rest, err := io.ReadAll(body)
			require.NoError(t, err)
			object(t, string(rest))
			require.Contains(t, string(rest), tc.has)
		})
	}
}
