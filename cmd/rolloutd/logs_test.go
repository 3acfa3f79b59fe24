package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// rolloutsServer has the rollouts abc-1 and abd-2, the second in a group of that name, and the files of the first.
func rolloutsServer(t *testing.T) map[string]string {
	t.Helper()

	answers := map[string]string{
		"/groups?id_prefix=ab&limit=100":      `{"groups":[{"group_id":"abd"}]}`,
		"/rollouts?id_prefix=ab&limit=100":    `{"rollouts":[{"rollout_id":"abc-1"},{"rollout_id":"abd-0","group_id":"abd"}]}`,
		"/groups?id_prefix=abc&limit=100":     `{"groups":[]}`,
		"/rollouts?id_prefix=abc&limit=100":   `{"rollouts":[{"rollout_id":"abc-1"}]}`,
		"/groups?limit=100":                   `{"groups":[{"group_id":"abd"}]}`,
		"/rollouts?limit=100":                 `{"rollouts":[{"rollout_id":"abc-1"}]}`,
		"/rollouts?detail=true&limit=20":      `{"rollouts":[]}`,
		"/rollouts/abc-1/logs/agent?":         "agent says\n",
		"/rollouts/abc-1/logs/verifier?":      "verifier says\n",
		"/rollouts/abc-1/messages":            `{"messages":[{"info":{"role":"user"}},{"info":{"role":"assistant"}}]}`,
		"/rollouts/abc-1/result":              `{"files":{"/home/user/workdir/a/b.py":"x = 1\n","/home/user/workdir/../../../c":"out"}}`,
		"/groups?id_prefix=whole&limit=100":   `{"groups":[]}`,
		"/rollouts?id_prefix=whole&limit=100": `{"rollouts":[{"rollout_id":"whole-1"}]}`,
		"/rollouts/whole/logs/agent?":         "of the rollout whose id is whole\n",
	}

	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, ok := answers[r.URL.String()]

		switch {
		case ok:
		case r.URL.Path == "/mcp":
			var req struct {
				Params struct {
					Arguments map[string]any `json:"arguments"`
				} `json:"params"`
			}

			_ = json.NewDecoder(r.Body).Decode(&req)

			status := "unknown"
			if req.Params.Arguments["rollout_id"] == "whole" {
				status = "done"
			}

			text = `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"{\"status\":\"` + status + `\"}"}]}}`
		default:
			w.WriteHeader(http.StatusNotFound)

			text = `{"detail":"none","kind":"NotFound"}`
		}

		_, _ = w.Write([]byte(text))
	}))
	t.Cleanup(srv.Close)

	return map[string]string{"ROLLOUTD_SERVER": srv.URL}
}

// The begin of an id stands for the id if it is the only one; one that exists itself never stands for another.
func TestIDsMayBeShortened(t *testing.T) {
	t.Parallel()

	vars := rolloutsServer(t)

	code, out, errText := rolloutd(t.Context(), vars, "logs", "abc")
	require.Zero(t, code, errText)
	require.Equal(t, "agent says\n", out)

	code, _, errText = rolloutd(t.Context(), vars, "logs", "ab")
	require.Equal(t, 1, code)
	require.Contains(t, errText, `"ab" begins several ids, abd, abc-1: give more of it`)

	code, out, errText = rolloutd(t.Context(), vars, "logs", "whole")
	require.Zero(t, code, errText)
	require.Equal(t, "of the rollout whose id is whole\n", out)

	code, _, errText = rolloutd(t.Context(), vars, "trace", "zz")
	require.Equal(t, 1, code)
	require.Contains(t, errText, "rolloutd ls --group zz")
}

func TestIDsAreCompleted(t *testing.T) {
	t.Parallel()

	code, out, errText := rolloutd(t.Context(), rolloutsServer(t), "__complete", "abort", "")
	require.Zero(t, code, errText)
	require.Contains(t, out, "abd\nabc-1\n")
}

func TestLogsMessagesAndFiles(t *testing.T) {
	t.Parallel()

	vars := rolloutsServer(t)
	folder := filepath.Join(t.TempDir(), "copy", "files")

	for _, tc := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"logs", "abc-1", "--log", "verifier"}, 0, "verifier says\n"},
		{[]string{"logs", "abc-1", "--log", "kernel"}, 1, "--log: must be agent, verifier, proxy, network, got \"kernel\""},
		{[]string{"messages", "abc"}, 0, "{\"info\":{\"role\":\"user\"}}\n{\"info\":{\"role\":\"assistant\"}}\n"},
		{[]string{"files", "ls", "abc"}, 0, "        6  /home/user/workdir/a/b.py\n"},
		{[]string{"files", "cat", "abc", "a/b.py"}, 0, "x = 1\n"},
		{[]string{"files", "cat", "abc", "/home/user/workdir/a/b.py"}, 0, "x = 1\n"},
		{[]string{"files", "cat", "abc", "z"}, 1, `no file "z": rolloutd files ls lists them`},
		{[]string{"files", "cp", "abc", folder}, 0, "2 files\n"},
	} {
		code, out, errText := rolloutd(t.Context(), vars, tc.args...)
		require.Equal(t, tc.code, code, errText)
		require.Contains(t, out+errText, tc.want)
	}

	text, err := os.ReadFile(filepath.Join(folder, "a", "b.py"))
	require.NoError(t, err)
	require.Equal(t, "x = 1\n", string(text))
	require.FileExists(t, filepath.Join(folder, "c"), "a name of the agent's does not leave the folder")
}

// A program that reads JSON gets it for an empty list and for an error, too.
func TestJSONInEveryState(t *testing.T) {
	t.Parallel()

	vars := rolloutsServer(t)

	code, out, errText := rolloutd(t.Context(), vars, "ls", "--json")
	require.Zero(t, code, errText)
	require.JSONEq(t, `{"rollouts":[]}`, out)

	for _, args := range [][]string{{"show", "zz", "--json"}, {"ls", "--json", "--server", "http://127.0.0.1:1"}} {
		code, out, errText = rolloutd(t.Context(), vars, args...)
		require.Equal(t, 1, code)

		var said struct{ Error jsonError }
		require.NoError(t, json.Unmarshal([]byte(out), &said), out)
		require.NotEmpty(t, said.Error.Kind)
		require.Contains(t, errText, said.Error.Message)
	}
}
