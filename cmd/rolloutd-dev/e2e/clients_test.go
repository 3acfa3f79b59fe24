package e2e

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// bearer is a client with a token of a server.
type bearer struct{ url, name string }

func (c bearer) token() string { return "the-token-of-" + c.name }

// rest sends a request with the client's token. target is a method and a path.
func (c bearer) rest(t *testing.T, target string, body any) (status int, out string) {
	t.Helper()

	method, path, _ := strings.Cut(target, " ")
	text := []byte(nil)

	if body != nil {
		var err error

		text, err = json.Marshal(body)
		require.NoError(t, err)
	}

	req, err := http.NewRequestWithContext(t.Context(), method, c.url+path, strings.NewReader(string(text)))
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+c.token())
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)

	defer resp.Body.Close()

	raw, err := io.ReadAll(resp.Body)
	require.NoError(t, err)

	return resp.StatusCode, string(raw)
}

// await repeats a request without a body until ok accepts the answer.
func (c bearer) await(t *testing.T, target string, ok func(status int, out string) bool) {
	t.Helper()
	require.Eventually(
		t,
		func() bool { return ok(c.rest(t, target, nil)) },
		5*time.Minute,
		200*time.Millisecond,
		target,
	)
}

// mcp calls a tool over MCP and returns the server's whole answer.
func (c bearer) mcp(t *testing.T, tool string, a args) string {
	t.Helper()
	_, out := c.rest(t, "POST /mcp", args{
		"jsonrpc": "2.0",
		"id":      1,
		"method":  "tools/call",
		"params":  args{"name": tool, "arguments": a},
	})

	return out
}

// socket calls a tool over a new WebSocket and returns the server's whole answer.
func (c bearer) socket(t *testing.T, tool string, a args) string {
	t.Helper()
	ws, resp, err := websocket.DefaultDialer.DialContext(
		t.Context(),
		"ws"+strings.TrimPrefix(c.url, "http")+"/ws",
		http.Header{"Authorization": {"Bearer " + c.token()}},
	)
	require.NoError(t, err)

	require.NoError(t, resp.Body.Close())
	defer ws.Close()

	require.NoError(t, ws.WriteJSON(step(tool, a, patienceS)))
	_, out, err := ws.ReadMessage()
	require.NoError(t, err)

	return string(out)
}

// startShared starts a server with tokens for two clients and an operator.
func startShared(t *testing.T) (alice, bob, operator bearer) {
	t.Helper()

	var list strings.Builder
	for name, scope := range map[string]string{"alice": "client", "bob": "client", "operator": "operator"} {
		fmt.Fprintf(
			&list,
			"- {name: %s, sha256: %x, scope: %s}\n",
			name,
			sha256.Sum256([]byte(bearer{name: name}.token())),
			scope,
		)
	}

	file := filepath.Join(t.TempDir(), "tokens.yaml")
	require.NoError(t, os.WriteFile(file, []byte(list.String()), 0o600))
	srv := startDev(t, devOptions{env: []string{"ROLLOUTD_TOKENS_FILE=" + file}})

	return bearer{srv.url, "alice"}, bearer{srv.url, "bob"}, bearer{srv.url, "operator"}
}

// Two clients with different tokens use one server. Neither client can read, follow, join, abort or block
// the other's rollouts over REST, a WebSocket or MCP. The answers are the same as for ids that are not
// used. The operator has access to all rollouts.
func TestClientsOfOneServer(t *testing.T) {
	t.Parallel()
	alice, bob, operator := startShared(t)
	task := func(id string, more ...string) args {
		return args{
			"instruction": "say hello",
			"agent":       rollout.AgentReact,
			"endpoint":    "scripted",
			"rollout_id":  id,
			"setup":       append([]string{"true"}, more...),
		}
	}
	require.Contains(t, alice.mcp(t, "run_rollout", task("alice-d")), "completed")
	status, out := alice.rest(t, "POST /rollouts", task("alice-r", "sleep 3600"))
	require.Equal(t, http.StatusAccepted, status, out)

	group := args{
		"instruction": "say hello",
		"agent":       rollout.AgentReact,
		"endpoint":    "scripted",
		"group_id":    "alice-g",
		"group_size":  2,
		"setup":       []string{"sleep 3600"},
	}
	status, out = alice.rest(t, "POST /groups", group)
	require.Equal(t, http.StatusAccepted, status, out)

	member := rollout.MemberID("alice-g", 0, 0)
	alice.await(t, "GET /rollouts/"+member, func(status int, _ string) bool { return status == http.StatusOK })
	alice.await(t, "GET /rollouts", func(_ int, out string) bool { return strings.Contains(out, "alice-d") })

	for _, id := range []string{"alice-d", "alice-r", member} {
		bob.requireNoAccess(t, id)
	}

	for _, at := range []string{"GET /groups/alice-g", "GET /groups/alice-g/trajectory", "POST /groups/alice-g/abort"} {
		status, out := bob.rest(t, at, nil)
		require.Equal(t, http.StatusNotFound, status, "%s: %s", at, out)
	}

	status, out = bob.rest(t, "POST /groups", group)
	require.Equal(t, http.StatusConflict, status, out)

	for _, path := range []string{"/rollouts", "/groups"} {
		_, out = bob.rest(t, "GET "+path, nil)
		require.NotContains(t, out, "alice")
	}

	for _, who := range []bearer{alice, operator} {
		_, out = who.rest(t, "GET /rollouts/alice-d/result", nil)
		require.Equal(t, rollout.Completed, decode[rollout.Result](t, out).Outcome)
		_, out = who.rest(t, "GET /rollouts", nil)
		require.Contains(t, out, "alice-d")
		_, out = who.rest(t, "GET /groups/alice-g", nil)
		require.False(t, decode[rollout.GroupState](t, out).Done(), "it runs, whatever bob asked for")
		require.Contains(t, who.socket(t, "get_state", args{"rollout_id": "alice-r"}), "alice-r")
	}

	require.Contains(t, alice.socket(t, "abort_rollout", args{"rollout_id": "alice-r"}), `\"aborted\":true`)
	status, out = operator.rest(t, "POST /groups/alice-g/abort", nil)
	require.Equal(t, http.StatusOK, status, out)
	require.Contains(t, operator.mcp(t, "finalize_rollout", args{"rollout_id": "alice-r"}), "aborted")
	operator.await(
		t,
		"GET /groups/alice-g",
		func(_ int, out string) bool { return decode[rollout.GroupState](t, out).Done() },
	)
}

// requireNoAccess checks that the client can neither read nor change another client's rollout. Starting a
// rollout with the same id fails because the id is taken.
func (c bearer) requireNoAccess(t *testing.T, id string) {
	t.Helper()

	unused := strings.Repeat("x", len(id))
	same := func(what, of, ofNone string) {
		t.Helper()
		require.Equal(t, strings.ReplaceAll(ofNone, unused, id), of, "%s of %s", what, id)
	}

	for _, at := range []string{"", "/result", "/trace", "/trace?format=npz", "/trajectory", "/messages", "/events", "/logs/agent", "/logs/proxy", "/logs/verifier", "/abort"} {
		method := map[bool]string{true: "POST ", false: "GET "}[at == "/abort"]
		status, out := c.rest(t, method+"/rollouts/"+id+at, nil)
		require.Equal(t, http.StatusNotFound, status, "%s: %s", at, out)
		_, none := c.rest(t, method+"/rollouts/"+unused+at, nil)
		same(at, out, none)
	}

	for _, tool := range []string{"get_state", "get_messages", "get_trace", "finalize_rollout", "abort_rollout"} {
		of, ofNone := args{"rollout_id": id}, args{"rollout_id": unused}
		same(tool+" over MCP", c.mcp(t, tool, of), c.mcp(t, tool, ofNone))
		same(tool+" over a WebSocket", c.socket(t, tool, of), c.socket(t, tool, ofNone))
	}

	mine := args{"instruction": "say hello", "agent": rollout.AgentReact, "endpoint": "scripted", "rollout_id": id}
	status, out := c.rest(t, "POST /rollouts", mine)
	require.Equal(t, http.StatusConflict, status, out)

	for _, tool := range []string{"run_rollout", "start_rollout"} {
		require.Contains(t, c.mcp(t, tool, mine), "is taken")
		require.Contains(t, c.socket(t, tool, mine), "is taken")
	}
}
