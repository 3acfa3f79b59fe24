package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// serveGroup starts a server with one group. At its second request for the group, the second member ends with outcome.
func serveGroup(t *testing.T, outcome string) (url string, asked *map[string]any) {
	t.Helper()

	var looks atomic.Int32

	asked = &map[string]any{}
	member := func(id, outcome string) map[string]any {
		return map[string]any{
			"rollout_id": id,
			"outcome":    outcome,
			"reward":     map[bool]any{true: 1}[outcome == "completed"],
		}
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g := map[string]any{"group_id": "g", "size": 2, "members": []any{member("g-0", "completed"), member("g-1", "")}}

		switch {
		case r.URL.Path == "/mcp": // the server knows no rollout
			writeUnknown(w, r)
			return
		case r.URL.Path == "/rollouts/g/trace", r.URL.Path == "/rollouts/g/trajectory":
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"detail":"no rollout","kind":"NotFound"}`))

			return
		case r.URL.Path == "/groups/g/abort":
			_ = json.NewEncoder(w).Encode(map[string]any{"group_id": "g", "aborted": looks.Load() == 0})
			return
		case r.Method == http.MethodPost && r.URL.Path == "/groups":
			// an invalid body fails the assertions of the test
			_ = json.NewDecoder(r.Body).Decode(asked)

			w.WriteHeader(http.StatusAccepted)
		case r.URL.Path == "/rollouts/g-1/events":
			_, _ = w.Write([]byte(": events follow\n\nid: 1\nevent: done\ndata: {}\n\n"))
			return
		case r.URL.Path == "/groups/g" && looks.Add(1) > 1:
			g["members"], g["outcome"] = []any{member("g-0", "completed"), member("g-1", outcome)}, "complete"
			g["statistics"], g["pass_at_k"] = map[string]any{
				"n":    2,
				"mean": 1,
				"std":  0,
			}, map[string]any{"1": 1, "2": 1}
		case r.URL.Path == "/groups/g/trajectory", r.URL.Path == "/rollouts/r1/trajectory":
			_, _ = w.Write([]byte(r.URL.String()))
			return
		}

		_ = json.NewEncoder(w).Encode(g)
	}))
	t.Cleanup(srv.Close)

	return srv.URL, asked
}

// writeUnknown answers a tool call of a rollout that does not exist.
func writeUnknown(w http.ResponseWriter, r *http.Request) {
	var req struct{ Params struct{ Name string } }
	// an empty name has no text
	_ = json.NewDecoder(r.Body).Decode(&req)
	text := map[string]string{
		"get_state":     `{"status":"unknown"}`,
		"abort_rollout": `{"aborted":false,"reason":"unknown"}`,
	}[req.Params.Name]
	_ = json.NewEncoder(w).Encode(map[string]any{
		"jsonrpc": "2.0",
		"id":      1,
		"result":  map[string]any{"content": []any{map[string]any{"type": "text", "text": text}}},
	})
}

func TestRunAGroup(t *testing.T) {
	t.Parallel()

	for outcome, want := range map[string]int{"completed": 0, "agent_timeout": 11} {
		url, asked := serveGroup(t, outcome)
		code, out, errText := rolloutd(
			t.Context(),
			map[string]string{"ROLLOUTD_SERVER": url},
			"run",
			taskFile(t, "instruction: say hello\n"),
			"--group-size",
			"2",
		)
		require.Equal(t, want, code, errText)
		require.InDelta(t, 2, (*asked)["group_size"], 0)
		require.Equal(t, "say hello", (*asked)["instruction"])
		require.Contains(t, out, "pass@k    1: 1  2: 1")
		require.Contains(t, out, "mean      1 ± 0")
		require.Contains(t, errText, "g-0  completed, reward 1\n")
		require.Contains(t, errText, "g-1  "+outcome)
	}
}

// A detached group prints only its id.
func TestDetachedGroup(t *testing.T) {
	t.Parallel()
	url, asked := serveGroup(t, "completed")
	code, out, errText := rolloutd(
		t.Context(),
		map[string]string{"ROLLOUTD_SERVER": url},
		"run",
		taskFile(t, "instruction: say hello\n"),
		"-n",
		"2",
		"--detach",
	)
	require.Zero(t, code, errText)
	require.Equal(t, "g\n", out)
	require.InDelta(t, 2, (*asked)["group_size"], 0)
}

// Commands accept the id of a detached group in place of a rollout's id, or the error names the right command.
func TestCommandsTakeTheIDOfAGroup(t *testing.T) {
	t.Parallel()
	url, _ := serveGroup(t, "completed")
	run := func(args ...string) (code int, out, errText string) {
		return rolloutd(t.Context(), map[string]string{"ROLLOUTD_SERVER": url}, args...)
	}
	code, out, errText := run("abort", "g")
	require.Zero(t, code, errText)
	require.Equal(t, "aborting group g; show its result:  rolloutd show g\n", out)

	code, out, errText = run("abort", "g", "--json")
	require.Zero(t, code, errText)
	require.JSONEq(t, `{"group_id":"g","aborted":true}`, out)

	code, out, errText = run("show", "g")
	require.Zero(t, code, errText)
	require.Equal(
		t,
		"group g is running: 1 of 2 rollouts have ended\n  g-1  running\n  g-0  completed, reward 1\n",
		out,
	)
	code, out, errText = run("show", "g", "--wait")
	require.Zero(t, code, errText)
	require.Contains(t, out, "pass@k    1: 1  2: 1")
	code, out, errText = run("show", "g", "--json")
	require.Zero(t, code, errText)
	require.Contains(t, out, `"outcome":"complete"`)

	code, _, errText = run("abort", "g")
	require.Equal(t, 1, code)
	require.Contains(t, errText, "not aborted: already done")

	for command, want := range map[string]string{
		"tail":       "it is a group; list its rollouts:  rolloutd ls --group g",
		"trace":      "it is a group; list its rollouts:  rolloutd ls --group g",
		"trajectory": "it is a group:  rolloutd trajectory --group g",
	} {
		code, _, errText = run(command, "g")
		require.Equal(t, 1, code)
		require.Contains(t, errText, want)
	}
}

func TestTrajectoryCommand(t *testing.T) {
	t.Parallel()
	url, _ := serveGroup(t, "completed")

	env := map[string]string{"ROLLOUTD_SERVER": url}
	for want, args := range map[string][]string{
		"/rollouts/r1/trajectory?format=jsonl&subagents=drop":                {"r1"},
		"/groups/g/trajectory?format=trl&subagents=separate&summaries=train": {"g", "--group", "--format", "trl", "--subagents", "separate", "--summaries", "train"},
		"/groups/g/trajectory?format=trl&sequences=all&subagents=drop":       {"g", "--group", "--format", "trl", "--sequences", "all"},
	} {
		code, out, errText := rolloutd(t.Context(), env, append([]string{"trajectory"}, args...)...)
		require.Zero(t, code, errText)
		require.Equal(t, want, out)
	}
}
