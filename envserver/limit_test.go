package envserver_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/envserver"
	"github.com/rolloutd/rolloutd/internal/catalog"
	"github.com/rolloutd/rolloutd/internal/network/egress"
)

// By default a call may take as long as its rollout, here two hours.
func TestLongCallsHaveNoBoundByDefault(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		engine := newFake()
		srv, err := envserver.New(envserver.Options{
			Rollouts: engine, Seal: strings.ToUpper,
			Resolve: catalog.New(onlyVLLM, egress.Policy{}).Resolve,
		})
		require.NoError(t, err)
		time.AfterFunc(2*time.Hour, func() { engine.finish("r") })

		w := httptest.NewRecorder()
		srv.ServeHTTP(
			w,
			httptest.NewRequest(http.MethodPost, "http://localhost/mcp", strings.NewReader(rpcRun(t, nil))),
		)
		require.Contains(t, valueAt(t, object(t, w.Body.String()), "result", "data"), `"outcome":"completed"`)
	})
}

// The time limit applies to every way to call a tool with JSON-RPC. A limit in the call overrides the server's.
func TestCallTimeoutOverridesTheServersOverMCP(t *testing.T) {
	t.Parallel()
	r := start(t)
	own := map[string]any{"timeout_s": 1.5}

	_, _, body := r.do("POST", "/mcp", rpcRun(t, own))
	requireTimeout(t, object(t, body), "1.5")
	requireTimeout(t, object(t, r.dial("/mcp").ask(rpcRun(t, own))), "1.5")
	inFrame := r.dial("/ws").ask(`{"type":"mcp","data":` + rpcRun(t, own) + `}`)
	requireTimeout(t, valueAt(t, object(t, inFrame), "data").(map[string]any), "1.5")

	s, err := mcp.NewClient(&mcp.Implementation{Name: "test"}, nil).
		Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: r.url + "/mcp"}, nil)
	require.NoError(t, err)

	defer s.Close()

	res, err := s.CallTool(t.Context(), &mcp.CallToolParams{
		Meta:      mcp.Meta(own),
		Name:      "run_rollout",
		Arguments: task("r", waits),
	})
	require.NoError(t, err)
	require.True(t, res.IsError)
	require.Contains(t, res.Content[0].(*mcp.TextContent).Text, "timed out after 1.5 seconds; rollout r goes on")

	require.False(t, r.fake.aborted("r"))
	require.Equal(t, 1, r.fake.count())
}

func TestAnImpossibleTimeoutIsRefused(t *testing.T) {
	t.Parallel()

	r := start(t)
	for _, wrong := range []any{0, -1, "soon", []any{}} {
		_, _, body := r.do("POST", "/mcp", rpcRun(t, map[string]any{"timeout_s": wrong}))
		require.EqualValues(t, -32602, valueAt(t, object(t, body), "error", "code"))
		require.Contains(t, valueAt(t, object(t, body), "error", "message"), "_meta.timeout_s")
	}

	require.Zero(t, r.fake.count())
}

// A request_id that is no string cannot identify a repeated call.
func TestAnImpossibleRequestIDIsRefused(t *testing.T) {
	t.Parallel()
	r := start(t)
	_, _, body := r.do("POST", "/mcp", rpcRun(t, map[string]any{"request_id": 5}))
	require.EqualValues(t, -32602, valueAt(t, object(t, body), "error", "code"))
	require.Contains(t, valueAt(t, object(t, body), "error", "message"), "_meta.request_id")
	require.Zero(t, r.fake.count())
}

// In an HTTP request timeout_s is next to the action, as in the reference server.
func TestTimeoutOfAStepOverHTTP(t *testing.T) {
	t.Parallel()
	r := start(t)
	action := map[string]any{"type": "call_tool", "tool_name": "run_rollout", "arguments": task("r", waits)}
	body, err := json.Marshal(map[string]any{"timeout_s": 1.5, "action": action})
	require.NoError(t, err)

	status, _, out := r.do("POST", "/step", string(body))
	require.Equal(t, http.StatusOK, status)
	failed := valueAt(t, object(t, out), "observation", "error")
	require.Equal(t, "timeout", valueAt(t, failed, "error_type"))
	require.Contains(t, valueAt(t, failed, "message"), "timed out after 1.5 seconds; rollout r goes on")
}

// rpcRun returns a request that runs a rollout which does not end by itself.
func rpcRun(t *testing.T, meta map[string]any) string {
	t.Helper()

	params := map[string]any{"name": "run_rollout", "arguments": task("r", waits)}
	if meta != nil {
		params["_meta"] = meta
	}

	raw, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params})
	require.NoError(t, err)

	return string(raw)
}

func requireTimeout(t *testing.T, reply map[string]any, seconds string) {
	t.Helper()
	failed := valueAt(t, reply, "error")
	require.Equal(t, "Timeout", valueAt(t, failed, "data", "kind"))
	require.Contains(
		t,
		valueAt(t, failed, "message"),
		"timed out after "+seconds+` seconds; rollout r goes on: call finalize_rollout with rollout_id "r" for its result`,
	)
}

// Large requests are refused while the server has no memory for them. Small requests are answered.
func TestRequestsShareMemory(t *testing.T) {
	t.Parallel()
	r := start(t, func(o *envserver.Options) { o.RequestMemory = 1 })
	large := `{"episode_id":"` + strings.Repeat("x", 100_000) + `"}`
	status, headers, out := r.do("POST", "/reset", large)
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Equal(t, "1", headers.Get("Retry-After"))
	require.Contains(t, out, "as many large requests as it can hold")

	status, _, _ = r.do("POST", "/reset", `{}`)
	require.Equal(t, http.StatusOK, status)

	ws := r.dial("/ws")
	require.Contains(t, ws.ask(`{"type":"state"}`), "episode_id")
	require.Contains(t, ws.ask(`{"type":"reset","data":`+large+`}`), "as many large requests as it can hold")
	require.Equal(t, websocket.CloseTryAgainLater, ws.closed())
}
