package envserver_test

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/envserver"
)

func withWeb(o *envserver.Options) { o.Web, o.Readme = true, "# Read me" }

// step returns the request body of a step in the web session.
func step(frame string) string { return strings.Replace(frame, `"data":`, `"action":`, 1) }

func TestWebIsOffUnlessAskedFor(t *testing.T) {
	t.Parallel()

	r := start(t)
	for _, path := range []string{"/", "/web", "/web/", "/web/state"} {
		status, _, body := r.do("GET", path, "")
		require.Equal(t, http.StatusNotFound, status, path)
		require.JSONEq(t, `{"detail":"Not Found"}`, body)
	}
}

func TestWebRoutes(t *testing.T) {
	t.Parallel()

	r := start(t, withWeb)
	for _, c := range load[wireCase](t, "web.json") {
		t.Run(c.Name, func(t *testing.T) {
			status, headers, body := r.do(c.Method, c.Path, c.Body)
			require.Equal(t, c.Status, status, body)

			for k, v := range c.Headers {
				require.Equal(t, v, headers.Get(k), k)
			}

			if c.Want != nil {
				requireSame(t, decode(t, c.Want), decode(t, []byte(body)), "body")
			}
		})
	}
}

func TestWebSession(t *testing.T) {
	t.Parallel()
	r := start(t, withWeb)
	_, _, out := r.do("POST", "/web/reset", `{"episode_id":"ep"}`)
	require.JSONEq(t, `{"observation":{"metadata":{}},"reward":null,"done":false}`, out)
	_, _, out = r.do("POST", "/web/step", step(call("run_rollout", task("r", "x"))))
	require.Equal(t, "run_rollout", valueAt(t, object(t, out), "observation", "tool_name"))
	_, _, out = r.do("GET", "/web/state", "")
	require.Equal(t, "ep", object(t, out)["episode_id"])
	require.EqualValues(t, 1, object(t, out)["rollouts_completed"], "the session is one for all who name none")

	_, _, out = r.do("POST", "/web/step", step(call("run_rollout", task("r2", "x"))), "X-Session-Id", "of-one-page")
	require.Equal(t, "run_rollout", valueAt(t, object(t, out), "observation", "tool_name"))
	_, _, out = r.do("GET", "/web/state", "", "X-Session-Id", "of-one-page")
	require.NotEqual(t, "ep", object(t, out)["episode_id"], "who names a session has it for himself")
}

func TestWebUpdates(t *testing.T) {
	t.Parallel()
	r := start(t, withWeb)
	c := r.dial("/ws/ui")
	requireSame(
		t,
		decode(
			t,
			[]byte(
				`{"type":"state_update","episode_state":{"episode_id":"<uuid>","step_count":0,"current_observation":null,"action_logs":[],"is_reset":true}}`,
			),
		),
		decode(t, []byte(c.read())),
		"first",
	)
	r.do("POST", "/web/reset", `{"episode_id":"ep"}`)
	requireSame(
		t,
		decode(
			t,
			[]byte(
				`{"type":"state_update","episode_state":{"episode_id":"ep","step_count":0,"current_observation":{},"action_logs":[],"is_reset":true}}`,
			),
		),
		decode(t, []byte(c.read())),
		"after the reset",
	)
	c.send("the server ignores what a page sends")
	r.do("POST", "/web/step", step(call("abort_rollout", map[string]any{"rollout_id": "none", "api_key": "sk-secret"})))

	update := c.read()
	require.NotContains(t, update, "sk-secret")
	state := valueAt(t, object(t, update), "episode_state")
	require.EqualValues(t, 1, valueAt(t, state, "step_count"))
	require.Equal(t, false, valueAt(t, state, "is_reset"))
	entry := valueAt(t, state, "action_logs", 0).(map[string]any)
	require.Equal(t, valueAt(t, state, "current_observation"), entry["observation"])
	require.Equal(t, "call_tool", valueAt(t, entry, "action", "type"))
	require.Equal(t, map[string]any{"rollout_id": "none", "api_key": "…"}, valueAt(t, entry, "action", "arguments"))
	_, err := time.Parse("2006-01-02T15:04:05.000000", entry["timestamp"].(string))
	require.NoError(t, err)
	require.Equal(t, false, entry["done"])

	r.do("POST", "/web/reset", "")
	require.Empty(t, valueAt(t, object(t, c.read()), "episode_state", "action_logs"), "a reset clears the log")
	require.NoError(t, r.srv.Shutdown(t.Context()))
	require.Equal(t, websocket.CloseServiceRestart, c.closed())
}

// A page whose session has ended gets a close frame, and the server forgets the session's log.
func TestWebUpdatesEndWithTheSession(t *testing.T) {
	t.Parallel()
	r := start(t, withWeb)
	c := r.dial("/ws/ui?session_id=page")
	c.read()
	require.Equal(t, 1, r.srv.Views())
	r.rpc("openenv/session/close", map[string]any{"session_id": "page"})
	require.Equal(t, websocket.CloseNormalClosure, c.closed())
	r.eventually(func() bool { return r.srv.Views() == 0 }, "the log is forgotten")
}

// The page itself is served without a token and asks for one; everything else needs it. A browser cannot
// set headers of a WebSocket, so the page sends the token as a subprotocol.
func TestWebWithTokens(t *testing.T) {
	t.Parallel()

	const token = "0123456789abcdef"

	r := start(t, withWeb, func(o *envserver.Options) { o.Tokens = []envserver.Token{envserver.PlainToken(token)} })
	for path, want := range map[string]int{
		"/": 307, "/web": 307, "/web/": 200, "/web/app.js": 200, "/web/style.css": 200,
		"/web/none.js": 401, "/web/state": 401, "/web/metadata": 401, "/ws/ui": 401,
	} {
		status, _, _ := r.do("GET", path, "")
		require.Equal(t, want, status, path)
	}

	protocols := "rolloutd.ui, rolloutd.token." + base64.RawURLEncoding.EncodeToString([]byte(token))
	c := r.dial("/ws/ui", "Sec-WebSocket-Protocol", protocols)
	require.Equal(t, "rolloutd.ui", c.Subprotocol(), "the token is not said back")
	require.Contains(t, c.read(), "state_update")

	_, resp, err := websocket.DefaultDialer.Dial(
		"ws"+strings.TrimPrefix(r.url, "http")+"/ws/ui",
		http.Header{"Sec-WebSocket-Protocol": {"rolloutd.ui, rolloutd.token.bm9uZQ"}},
	)
	require.Error(t, err)
	require.Equal(t, http.StatusUnauthorized, resp.StatusCode)
}

func TestPagePolicy(t *testing.T) {
	t.Parallel()
	r := start(t, withWeb)
	_, headers, body := r.do("GET", "/web/", "")
	require.Contains(t, headers.Get("Content-Security-Policy"), "default-src 'none'")
	require.NotContains(t, body, "//", "nothing comes from elsewhere")
}
