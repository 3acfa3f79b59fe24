package envserver_test

import (
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/envserver"
	"github.com/rolloutd/rolloutd/internal/catalog"
	"github.com/rolloutd/rolloutd/internal/network/egress"
)

func TestCapacityIsReportedOverEveryTransport(t *testing.T) {
	t.Parallel()
	r := start(t, func(o *envserver.Options) { o.MaxSessions = 1 })
	first := r.dial("/ws")
	first.ask(`{"type":"reset"}`)

	const full = "Server at capacity: 1/1 sessions active. Cannot accept new connections."

	ws := r.dial("/ws")
	want := decode(
		t,
		[]byte(
			`{"type":"error","data":{"message":"`+full+`","code":"CAPACITY_REACHED","active_sessions":1,"max_sessions":1}}`,
		),
	)
	// gets the refusal as its reply
	ws.send(`{"type":"reset"}`)
	requireSame(t, want, decode(t, []byte(ws.read())), "first answer")
	requireSame(t, want, decode(t, []byte(ws.ask(`{"type":"state"}`))), "later answer")
	ws.send(`{"type":"close"}`)
	require.Equal(t, 1000, ws.closed())

	rpc := decode(
		t,
		[]byte(
			`{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"`+full+`","data":{"active_sessions":1,"max_sessions":1}}}`,
		),
	)
	requireSame(t, rpc, decode(t, []byte(r.dial("/mcp").read())), "ws /mcp")
	out := r.rpc("openenv/session/create", nil)
	require.EqualValues(t, -32000, valueAt(t, out, "error", "code"))
	require.Equal(t, full, valueAt(t, out, "error", "message"))
	// Requests that take no slot still work.
	require.NotEmpty(t, valueAt(t, r.rpc("tools/list", nil), "result", "tools"))
}

func TestRefusedSocketIsClosed(t *testing.T) {
	t.Parallel()
	r := start(t, func(o *envserver.Options) { o.MaxSessions, o.Linger = 1, 20*time.Millisecond })
	r.session()
	c := r.dial("/ws")
	require.Contains(t, c.read(), "CAPACITY_REACHED")
	require.Equal(t, 1000, c.closed())
}

func TestHTTPSession(t *testing.T) {
	t.Parallel()
	r := start(t, func(o *envserver.Options) { o.MaxSessions = 1 })
	id := r.session()
	run := func() map[string]any {
		return r.rpc("tools/call", map[string]any{"name": "run_rollout", "arguments": task("r", "x"), "session_id": id})
	}
	require.NotNil(t, valueAt(t, run(), "result", "data"))

	closed := r.rpc("openenv/session/close", map[string]any{"session_id": id})
	requireSame(t, map[string]any{"session_id": id, "closed": true}, valueAt(t, closed, "result"), "close")
	again := r.rpc("openenv/session/close", map[string]any{"session_id": id})
	require.Equal(t, "Unknown session_id: "+id, valueAt(t, again, "error", "message"))
	require.Equal(t, "Unknown session_id: "+id, valueAt(t, run(), "error", "message"))
	// the slot is free again
	r.session()
}

func TestClosingASessionEndsItsCalls(t *testing.T) {
	t.Parallel()
	r := start(t)
	id := r.session()
	in := func(tool string, args map[string]any) map[string]any {
		return r.rpc("tools/call", map[string]any{"name": tool, "arguments": args, "session_id": id})
	}
	require.NotNil(t, in("start_rollout", task("bound", waits, "on_disconnect", "abort"))["result"])

	out := make(chan map[string]any, 1)
	go func() { out <- in("run_rollout", task("free", waits)) }()

	r.started("free")
	require.Equal(
		t,
		true,
		valueAt(t, r.rpc("openenv/session/close", map[string]any{"session_id": id}), "result", "closed"),
	)

	failed := <-out
	require.EqualValues(t, -32603, valueAt(t, failed, "error", "code"))
	require.Contains(t, valueAt(t, failed, "error", "message"), "the session was closed; rollout free goes on")
	r.eventually(func() bool { return r.fake.aborted("bound") }, "the session's end is its client's")
	require.False(t, r.fake.aborted("free"))
}

// A session opened over HTTP frees its slot after an hour without use. A call in flight counts as use,
// however long it takes.
func TestIdleSessionEnds(t *testing.T) {
	t.Parallel()
	// no network, and fake time
	synctest.Test(t, func(t *testing.T) {
		engine := newFake()
		resolve := catalog.New(onlyVLLM, egress.Policy{}).Resolve
		srv, err := envserver.New(envserver.Options{
			Rollouts:    engine,
			Resolve:     resolve,
			Seal:        strings.ToLower,
			MaxSessions: 1,
		})
		require.NoError(t, err)

		rpc := func(method, params string) map[string]any {
			rec := httptest.NewRecorder()
			srv.ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), "POST", "http://localhost/mcp",
				strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`)))

			return object(t, rec.Body.String())
		}
		id, _ := valueAt(t, rpc("openenv/session/create", "{}"), "result", "session_id").(string)

		time.Sleep(time.Hour - time.Second)
		require.Contains(t, valueAt(t, rpc("openenv/session/create", "{}"), "error", "message"), "capacity")

		out := make(chan map[string]any, 1)
		go func() {
			out <- rpc("tools/call", `{"name":"run_rollout","arguments":{"endpoint":"vllm","instruction":"`+waits+`","rollout_id":"r"},
				"_meta":{"timeout_s":1e6},"session_id":"`+id+`"}`)
		}()

		time.Sleep(3 * time.Hour)
		require.Contains(t, rpc("openenv/session/create", "{}"), "error")
		engine.finish("r")
		require.Contains(t, <-out, "result")
		time.Sleep(time.Hour - time.Second)
		require.Contains(t, rpc("openenv/session/create", "{}"), "error")
		time.Sleep(2 * time.Second)
		require.Contains(t, rpc("openenv/session/create", "{}"), "result")
		require.NoError(t, srv.Shutdown(t.Context()))
	})
}

func TestWebSocketAttachesToAnHTTPSession(t *testing.T) {
	t.Parallel()
	r := start(t, func(o *envserver.Options) { o.MaxSessions = 1 })
	id := r.session()
	c := r.dial("/ws?session_id=" + id)
	c.ask(`{"type":"reset","data":{"episode_id":"ep"}}`)
	r.rpc("tools/call", map[string]any{
		"name":       "run_rollout",
		"arguments":  task("r", "x", "task_id", "t"),
		"session_id": id,
	})

	state := valueAt(t, object(t, c.ask(`{"type":"state"}`)), "data")
	require.EqualValues(t, 1, valueAt(t, state, "rollouts_completed"), "both transports see one session")
	require.Equal(t, "t", valueAt(t, state, "last_task_id"))

	// Another socket attaches only when this one has closed, as when a client reconnects.
	next := make(chan string, 1)
	go func() {
		defer close(next)

		next <- r.dial("/ws?session_id=" + id).ask(`{"type":"state"}`)
	}()

	require.NoError(t, c.Close())
	require.Contains(t, <-next, `"episode_id":"ep"`)

	closing := r.rpc("openenv/session/close", map[string]any{"session_id": id})
	if valueAt(t, closing, "result", "closed") == false {
		require.Equal(t, true, valueAt(t, closing, "result", "closing"))
	}
}

func TestAttachedSessionClosesWhenItsSocketDoes(t *testing.T) {
	t.Parallel()
	r := start(t, func(o *envserver.Options) { o.MaxSessions = 1 })
	id := r.session()
	c := r.dial("/ws?session_id=" + id)
	c.ask(`{"type":"state"}`)

	closing := valueAt(t, r.rpc("openenv/session/close", map[string]any{"session_id": id}), "result")
	requireSame(t, map[string]any{"session_id": id, "closed": false, "closing": true}, closing, "close")
	require.Contains(t, c.ask(`{"type":"state"}`), `"state"`)
	c.send(`{"type":"close"}`)
	require.Equal(t, 1000, c.closed())
	r.eventually(func() bool { return r.rpc("openenv/session/create", nil)["result"] != nil }, "slot freed")
}

func TestAttachRefusals(t *testing.T) {
	t.Parallel()
	r := start(t)
	c := r.dial("/ws?session_id=none")
	requireSame(
		t,
		decode(t, []byte(`{"type":"error","data":{"message":"Unknown session_id: none","code":"SESSION_ERROR"}}`)),
		decode(t, []byte(c.read())),
		"unknown",
	)
	own := object(t, r.dial("/mcp").ask(`{"jsonrpc":"2.0","method":"openenv/session/create","id":1}`))
	c = r.dial("/ws?session_id=" + valueAt(t, own, "result", "session_id").(string))
	require.Contains(t, c.read(), "already has an attached WebSocket")
}

func TestASocketsOwnSessionIsNotForOthersToClose(t *testing.T) {
	t.Parallel()
	r := start(t)
	c := r.dial("/mcp")
	id := valueAt(t, object(t, c.ask(`{"jsonrpc":"2.0","method":"openenv/session/create","id":1}`)), "result", "session_id").(string)

	const refused = "Cannot close active WebSocket-managed session via MCP method"

	own := object(
		t,
		c.ask(`{"jsonrpc":"2.0","method":"openenv/session/close","params":{"session_id":"`+id+`"},"id":2}`),
	)
	require.EqualValues(t, -32600, valueAt(t, own, "error", "code"))
	require.Equal(t, refused, valueAt(t, own, "error", "message"))
	require.Equal(
		t,
		refused,
		valueAt(t, r.rpc("openenv/session/close", map[string]any{"session_id": id}), "error", "message"),
	)
}

func TestStartWithoutASessionToEndIsRefused(t *testing.T) {
	t.Parallel()
	r := start(t)
	out := r.rpc("tools/call", map[string]any{
		"name":      "start_rollout",
		"arguments": task("r", waits, "on_disconnect", "abort"),
	})
	require.Contains(t, valueAt(t, out, "error", "message"), "on_disconnect")
	require.Zero(t, r.fake.count())
}
