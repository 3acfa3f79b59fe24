package envserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/envserver"
)

func (r *rig) eventually(what func() bool, msg string) {
	r.t.Helper()
	require.Eventually(r.t, what, patience, 5*time.Millisecond, msg)
}

// started waits until the engine has the rollout.
func (r *rig) started(id string) {
	r.t.Helper()
	r.eventually(func() bool { _, there := r.fake.spec(id); return there }, id+" starts")
}

// While a step runs the server answers pings of the client and sends pings of its own.
func TestPingsDuringAStep(t *testing.T) {
	t.Parallel()
	r := start(t, func(o *envserver.Options) { o.PingInterval = 4 * time.Second })
	c := r.dial("/ws")
	pong, ping := make(chan string, 1), make(chan string, 100)

	c.SetPongHandler(func(data string) error { pong <- data; return nil })
	answers := c.PingHandler()
	c.SetPingHandler(func(data string) error { ping <- data; return answers(data) })
	c.send(call("run_rollout", task("long", waits)))
	r.started("long")
	require.NoError(t, c.WriteControl(websocket.PingMessage, []byte("hi"), time.Now().Add(patience)))
	// the reply may come only after the pong, and after pings whose pongs kept the connection open
	go func() {
		if <-pong == "hi" {
			<-ping
			<-ping
			r.fake.finish("long")
		}
	}()

	require.Equal(t, "long", answer(t, c.read())["rollout_id"])
}

func TestRepliesComeInTheOrderOfTheRequests(t *testing.T) {
	t.Parallel()
	r := start(t)
	c := r.dial("/ws")
	c.send(call("run_rollout", task("first", waits)))
	c.send(`{"type":"state"}`)
	c.send(`{"type":"mcp","data":{"jsonrpc":"2.0","method":"ping","id":"x"}}`)
	r.started("first")
	r.fake.finish("first")
	require.Equal(t, "first", answer(t, c.read())["rollout_id"])
	require.Equal(t, "state", object(t, c.read())["type"])
	require.Equal(t, "mcp", object(t, c.read())["type"])
}

func TestClientDisconnects(t *testing.T) {
	t.Parallel()

	for name, tc := range map[string]struct {
		tool    string
		args    []any
		aborted bool
	}{
		"a rollout goes on by default": {tool: "run_rollout"},
		"or ends with its client": {
			tool:    "run_rollout",
			args:    []any{"on_disconnect", "abort"},
			aborted: true,
		},
		"a started one goes on, too": {tool: "start_rollout"},
		"a started one ends with its client": {
			tool:    "start_rollout",
			args:    []any{"on_disconnect", "abort"},
			aborted: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t, func(o *envserver.Options) { o.MaxSessions = 1 })
			c := r.dial("/ws")
			c.send(call(tc.tool, task("r", waits, tc.args...)))
			r.started("r")

			if tc.tool == "start_rollout" {
				require.Equal(t, "starting", answer(t, c.read())["status"])
			}

			require.NoError(t, c.NetConn().(*net.TCPConn).SetLinger(0))
			require.NoError(t, c.Close())
			// The slot is free only when the old session has ended completely.
			r.eventually(func() bool {
				n := r.dial("/ws")
				return strings.Contains(n.ask(`{"type":"state"}`), "step_count")
			}, "slot freed")

			if tc.aborted {
				r.eventually(func() bool { return r.fake.aborted("r") }, "aborted")
				return
			}

			require.False(t, r.fake.aborted("r"))
		})
	}
}

func TestADeliveredRolloutIsNotAborted(t *testing.T) {
	t.Parallel()
	r := start(t)
	c := r.dial("/ws")
	c.send(call("start_rollout", task("r", waits, "on_disconnect", "abort")))
	c.read()
	r.fake.finish("r")
	require.Equal(
		t,
		"completed",
		answer(t, c.ask(call("finalize_rollout", map[string]any{"rollout_id": "r"})))["outcome"],
	)
	require.Equal(t, false, answer(t, c.ask(call("abort_rollout", map[string]any{"rollout_id": "r"})))["aborted"])
	require.False(t, r.fake.aborted("r"))
}

func TestClientOfAnHTTPCallDisconnects(t *testing.T) {
	t.Parallel()

	for _, path := range []string{"/mcp", "/mcp proper", "/step"} {
		for _, fate := range []string{"abort", "continue"} {
			t.Run(path+" "+fate, func(t *testing.T) {
				t.Parallel()
				r := start(t)
				args, err := json.Marshal(task("r", waits, "on_disconnect", fate))
				require.NoError(t, err)

				body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run_rollout","arguments":` + string(
					args,
				) + `}}`
				if path == "/step" {
					body = `{"action":{"tool_name":"run_rollout","arguments":` + string(args) + `}}`
				}

				ctx, leave := context.WithCancel(t.Context())
				route, _, proper := strings.Cut(path, " ")
				req, err := http.NewRequestWithContext(ctx, "POST", r.url+route, strings.NewReader(body))
				require.NoError(t, err)

				if proper {
					req.Header.Set("Content-Type", "application/json")
					req.Header.Set("Accept", "application/json, text/event-stream")
				}

				gone := make(chan error, 1)

				go func() {
					resp, err := http.DefaultClient.Do(req)
					if err == nil {
						err = resp.Body.Close()
					}

					gone <- err
				}()

				r.started("r")
				leave()
				require.ErrorIs(t, <-gone, context.Canceled)

				if fate == "abort" {
					r.eventually(func() bool { return r.fake.aborted("r") }, "aborted")
					return
				}

				r.fake.finish("r")
				require.False(t, r.fake.aborted("r"))
			})
		}
	}
}

func TestBinaryFramesAreRead(t *testing.T) {
	t.Parallel()
	c := start(t).dial("/ws")
	require.NoError(t, c.WriteMessage(websocket.BinaryMessage, []byte(`{"type":"state"}`)))
	require.Equal(t, "state", object(t, c.read())["type"])
}

func TestFrameTooLarge(t *testing.T) {
	t.Parallel()

	r := start(t, func(o *envserver.Options) { o.MaxMessage = 1000 })
	for path, want := range map[string]string{
		"/ws":  `{"type":"error","data":{"message":"message too large: at most 1000 bytes are taken","code":"SESSION_ERROR"}}`,
		"/mcp": `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"message too large: at most 1000 bytes are taken","data":{"kind":"Invalid"}}}`,
	} {
		c := r.dial(path)
		require.JSONEq(t, want, c.ask(strings.Repeat(" ", 10_000_000)), "it gets the error once it has sent all")
		require.Equal(t, websocket.CloseMessageTooBig, c.closed())
	}
}

func TestSilentClientIsDisconnected(t *testing.T) {
	t.Parallel()
	c := start(t, func(o *envserver.Options) { o.PingInterval = 200 * time.Millisecond }).dial("/ws")
	// send no pong
	c.SetPingHandler(func(string) error { return nil })
	_, _, err := c.ReadMessage()

	var closed *websocket.CloseError
	require.ErrorAs(t, err, &closed)
	require.Equal(t, websocket.CloseInternalServerErr, closed.Code)
	require.Equal(t, "keepalive ping timeout", closed.Text)
}

// A client that stops answering pings during a step is disconnected, and its step is canceled.
func TestSilenceDuringAStepCancelsIt(t *testing.T) {
	t.Parallel()
	r := start(t, func(o *envserver.Options) { o.PingInterval = 4 * time.Second })
	c := r.dial("/ws")
	c.SetPingHandler(func(string) error { return nil })
	c.send(call("run_rollout", task("r", waits, "on_disconnect", "abort")))
	r.started("r")
	require.Equal(t, websocket.CloseInternalServerErr, c.closed())
	r.eventually(func() bool { return r.fake.aborted("r") }, "aborted")
}

func TestHandshakeRefusals(t *testing.T) {
	t.Parallel()
	r := start(t, func(o *envserver.Options) { o.AllowedOrigins = []string{"https://friend.test"} })

	ws := "ws" + strings.TrimPrefix(r.url, "http")
	for name, tc := range map[string]struct {
		path, origin string
		status       int
		detail       string
	}{
		"unknown path":       {"/foo/ws", "", http.StatusForbidden, ""},
		"trailing slash":     {"/ws/", "", http.StatusForbidden, ""},
		"page of a stranger": {"/ws", "https://stranger.test", http.StatusForbidden, "origin not allowed"},
		"page of a friend":   {"/ws", "https://friend.test", http.StatusSwitchingProtocols, ""},
		"own page":           {"/ws", r.url, http.StatusSwitchingProtocols, ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := http.Header{}
			if tc.origin != "" {
				h.Set("Origin", tc.origin)
			}

			c, resp, err := websocket.DefaultDialer.DialContext(t.Context(), ws+tc.path, h)
			require.Equal(t, tc.status, resp.StatusCode)
			// a hijacked connection has no body
			body, _ := io.ReadAll(resp.Body)
			require.NoError(t, resp.Body.Close())

			if tc.detail != "" {
				require.Contains(t, object(t, string(body))["detail"], tc.detail)
			}

			if tc.status != http.StatusSwitchingProtocols {
				require.ErrorIs(t, err, websocket.ErrBadHandshake)
				return
			}

			require.NoError(t, c.Close())
		})
	}
}

// An invalid handshake is refused with the reason, like any other request.
func TestInvalidHandshakeGetsTheReason(t *testing.T) {
	t.Parallel()
	r := start(t)
	status, headers, body := r.do(
		"GET",
		"/ws",
		"",
		"Connection",
		"Upgrade",
		"Upgrade",
		"websocket",
		"Sec-WebSocket-Version",
		"12",
		"Sec-WebSocket-Key",
		"AAAAAAAAAAAAAAAAAAAAAA==",
	)
	require.Equal(t, http.StatusBadRequest, status)
	require.Equal(t, "13", headers.Get("Sec-WebSocket-Version"))
	require.Contains(t, object(t, body)["detail"], "version")
}

func TestShutdownClosesSocketsAndLeavesRollouts(t *testing.T) {
	t.Parallel()
	r := start(t)
	idle, busy := r.dial("/ws"), r.dial("/ws")
	busy.send(call("run_rollout", task("r", waits, "on_disconnect", "abort")))
	r.started("r")

	waiting := make(chan string, 1)
	id := r.session()

	go func() {
		defer close(waiting)

		out := r.rpc("tools/call", map[string]any{
			"name":       "run_rollout",
			"arguments":  task("h", waits, "on_disconnect", "abort"),
			"session_id": id,
		})
		waiting <- valueAt(r.t, out, "error", "message").(string)
	}()

	r.started("h")

	proper := make(chan string, 1)
	go func() {
		defer close(proper)

		_, _, out := r.do(
			"POST",
			"/mcp",
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run_rollout","arguments":
			{"endpoint":"vllm","instruction":"`+waits+`","rollout_id":"m","on_disconnect":"abort"}}}`,
			"Accept",
			"application/json, text/event-stream",
		)
		proper <- out
	}()

	r.started("m")

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()

	closed := make(chan error, 1)
	go func() { closed <- r.srv.Shutdown(ctx) }()

	require.Equal(t, websocket.CloseServiceRestart, idle.closed())
	require.Equal(t, websocket.CloseServiceRestart, busy.closed())
	require.NoError(t, <-closed)
	require.Contains(t, <-waiting, `finalize_rollout with rollout_id "h"`)
	require.False(t, r.fake.aborted("r"))
	require.False(t, r.fake.aborted("h"))
	require.Contains(
		t,
		<-proper,
		`the server is shutting down; rollout m goes on: call finalize_rollout with rollout_id \"m\"`,
	)
	require.False(t, r.fake.aborted("m"))
	status, _, _ := r.do(
		"GET",
		"/ws",
		"",
		"Connection",
		"Upgrade",
		"Upgrade",
		"websocket",
		"Sec-WebSocket-Version",
		"13",
		"Sec-WebSocket-Key",
		"AAAAAAAAAAAAAAAAAAAAAA==",
	)
	require.Equal(t, http.StatusServiceUnavailable, status)
}

func TestShutdownReturnsTheCauseOfItsContext(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.dial("/ws")

	ctx, cancel := context.WithCancelCause(t.Context())
	reason := errors.New("no patience")
	cancel(reason)
	// The idle socket needs a closing handshake, for which there is no time.
	require.ErrorIs(t, r.srv.Shutdown(ctx), reason)
}
