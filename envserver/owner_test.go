package envserver_test

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/envserver"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

const (
	alice = "Bearer token-of-alice"
	bob   = "Bearer token-of-bob"
	admin = "Bearer token-of-operator"
)

// shared starts a server with two clients and an operator.
func shared(t *testing.T, change ...func(*envserver.Options)) *rig {
	t.Helper()

	return start(t, append(change, func(o *envserver.Options) {
		for _, name := range []string{"alice", "bob"} {
			token := envserver.PlainToken("token-of-" + name)
			token.Name, token.Scope, token.MaxSandbox = name, envserver.ScopeClient, rollout.Resources{MemoryMiB: 4096}
			o.Tokens = append(o.Tokens, token)
		}

		o.Tokens = append(o.Tokens, envserver.PlainToken("token-of-operator"))
	})...)
}

// beginAsAlice starts a rollout of alice that runs until it is finished.
func (r *rig) beginAsAlice(id string) {
	r.t.Helper()

	body, err := json.Marshal(task(id, waits))
	require.NoError(r.t, err)
	status, _, out := r.do("POST", "/rollouts", string(body), "Authorization", alice)
	require.Equal(r.t, http.StatusAccepted, status, out)
	spec, _ := r.fake.spec(id)
	require.Equal(r.t, "alice", spec.Owner)
}

// Over REST the rollout of another client is not found, with the same message as a rollout that does not exist.
func TestRolloutsOfOthersAreNotFoundOverREST(t *testing.T) {
	t.Parallel()
	r := shared(t)
	r.beginAsAlice("r1")

	for _, at := range []string{"GET ", "GET /result", "GET /trace", "GET /turns", "GET /turns/1/parts/0", "GET /turns/1/alternatives", "GET /tokens", "GET /page", "GET /messages", "GET /events", "GET /logs/agent", "GET /logs/proxy", "GET /logs/verifier", "POST /abort"} {
		method, path, _ := strings.Cut(at, " ")
		status, _, out := r.do(method, "/rollouts/r1"+path, "", "Authorization", bob)
		require.Equal(t, http.StatusNotFound, status, at)

		_, _, none := r.do(method, "/rollouts/r2"+path, "", "Authorization", bob)
		require.Equal(t, strings.ReplaceAll(none, "r2", "r1"), out, at)
	}

	require.False(t, r.fake.aborted("r1"))

	for token, want := range map[string]int{alice: 1, bob: 0, admin: 1} {
		_, _, out := r.do("GET", "/rollouts", "", "Authorization", token)
		require.Len(t, object(t, out)["rollouts"], want, token)
	}

	status, _, _ := r.do("GET", "/rollouts/r1", "", "Authorization", admin)
	require.Equal(t, http.StatusOK, status)
	status, _, out := r.do("POST", "/rollouts/r1/abort", "", "Authorization", alice)
	require.Equal(t, http.StatusOK, status)
	require.JSONEq(t, `{"rollout_id":"r1","aborted":true}`, out)
}

// A client cannot request more resources than its token allows. An operator's token has no such limit.
func TestSandboxesWithinTheTokensBound(t *testing.T) {
	t.Parallel()
	r := shared(t)

	for i, c := range []struct {
		token, memory string
		want          int
	}{{alice, "4GiB", http.StatusAccepted}, {alice, "1000GB", http.StatusUnprocessableEntity}, {admin, "8GiB", http.StatusAccepted}} {
		in := task("r"+strconv.Itoa(i), waits)
		in["sandbox"] = map[string]any{"memory": c.memory}
		body, err := json.Marshal(in)
		require.NoError(t, err)

		status, _, out := r.do("POST", "/rollouts", string(body), "Authorization", c.token)
		require.Equal(t, c.want, status, out)

		if c.want != http.StatusAccepted {
			require.Contains(t, out, "sandbox.memory_mib: must be at most 4096 on this server, got 1024000")
		}
	}
}

// An id that a rollout of another client has is refused, and the message says nothing about that rollout.
// The owner gets its rollout again.
func TestIDsOfOthersAreTaken(t *testing.T) {
	t.Parallel()
	r := shared(t)
	r.beginAsAlice("r1")

	for _, tool := range []string{"run_rollout", "start_rollout"} {
		body, err := json.Marshal(map[string]any{
			"jsonrpc": "2.0",
			"id":      1,
			"method":  "tools/call",
			"params":  map[string]any{"name": tool, "arguments": task("r1", "mine")},
		})
		require.NoError(t, err)

		_, _, out := r.do("POST", "/mcp", string(body), "Authorization", bob)
		require.Equal(t, `rollout_id: "r1" is taken: choose another`, valueAt(t, object(t, out), "error", "message"))
	}

	body, err := json.Marshal(task("r1", "mine"))
	require.NoError(t, err)

	status, _, _ := r.do("POST", "/rollouts", string(body), "Authorization", bob)
	require.Equal(t, http.StatusConflict, status)
	status, _, _ = r.do("POST", "/rollouts", string(body), "Authorization", alice)
	require.Equal(t, http.StatusAccepted, status)
}

// Tools do not find the rollouts of another client, over a WebSocket and over both kinds of MCP. A client
// that disconnects does not abort a rollout of another client.
func TestRolloutsOfOthersAreNotFoundByTools(t *testing.T) {
	t.Parallel()
	r := shared(t)
	r.beginAsAlice("r1")
	ws := r.open("/ws", "Authorization", bob)
	require.Equal(t, "unknown", answer(t, ws.ask(call("get_state", map[string]any{"rollout_id": "r1"})))["status"])
	require.Equal(t, "unknown", answer(t, ws.ask(call("get_messages", map[string]any{"rollout_id": "r1"})))["status"])
	require.Equal(t, "unknown", answer(t, ws.ask(call("abort_rollout", map[string]any{"rollout_id": "r1"})))["reason"])
	require.Equal(
		t,
		"unknown rollout_id: r1",
		answer(t, ws.ask(call("finalize_rollout", map[string]any{"rollout_id": "r1"})))["error"],
	)
	require.Contains(t, ws.ask(call("run_rollout", task("r1", "mine", "on_disconnect", "abort"))), "is taken")

	mcp := r.dial("/mcp", "Authorization", bob)
	require.Contains(
		t,
		mcp.ask(
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"abort_rollout","arguments":{"rollout_id":"r1"}}}`,
		),
		`\"reason\":\"unknown\"`,
	)

	status, _, out := r.do(
		"POST",
		"/mcp",
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"abort_rollout","arguments":{"rollout_id":"r1"}}}`,
		"Authorization",
		bob,
		"Accept",
		"application/json, text/event-stream",
		"MCP-Protocol-Version",
		"2025-06-18",
	)
	require.Equal(t, http.StatusOK, status, out)
	require.Contains(t, out, `\"reason\":\"unknown\"`)
	require.NoError(t, ws.Close())
	require.False(t, r.fake.aborted("r1"))
	owner := r.dial("/ws", "Authorization", alice)
	require.Equal(t, "running", answer(t, owner.ask(call("get_state", map[string]any{"rollout_id": "r1"})))["status"])
}

// A malformed id is not found, whatever characters it has.
func TestImpossibleIDsAreNotFound(t *testing.T) {
	t.Parallel()
	r := start(t)

	for _, id := range []string{"a%00b", "%2e%2e", "..%2fx", strings.Repeat("x", 65), "a%0ab", "%FF", "a.b"} {
		for _, at := range []string{"GET ", "GET /result", "GET /trace", "GET /turns", "GET /turns/1/parts/0", "GET /turns/1/alternatives", "GET /tokens", "GET /messages", "GET /events", "GET /logs/agent", "GET /logs/proxy", "GET /logs/verifier", "POST /abort"} {
			method, path, _ := strings.Cut(at, " ")
			status, _, out := r.do(method, "/rollouts/"+id+path, "")
			require.Equal(t, http.StatusNotFound, status, "%s of %s: %s", at, id, out)
		}
	}
}

// On a server with several tokens one token has its share of the sessions at most, and learns why it waits;
// another token has room.
func TestOneTokenCannotTakeAllSessions(t *testing.T) {
	t.Parallel()
	r := shared(t, func(o *envserver.Options) { o.MaxSessions = 4 })

	create := func(as string) map[string]any {
		_, _, out := r.do(
			"POST",
			"/mcp",
			`{"jsonrpc":"2.0","id":1,"method":"openenv/session/create"}`,
			"Authorization",
			as,
		)

		return object(t, out)
	}
	for range 2 {
		require.Contains(t, create(alice), "result")
	}

	refused := create(alice)
	require.Contains(
		t,
		valueAt(t, refused, "error", "message"),
		"2/2 sessions of this token active, its share of the server's 4 (serve.token_share)",
	)
	require.Contains(t, create(bob), "result")

	alone := start(t, func(o *envserver.Options) { o.MaxSessions = 2 })
	for range 2 {
		_, _, out := alone.do("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"openenv/session/create"}`)
		require.Contains(t, object(t, out), "result")
	}
}
