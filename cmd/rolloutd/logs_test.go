package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/cli"
	"github.com/rolloutd/rolloutd/internal/fault"
)

// rolloutsServer has the rollouts abc-1 and abd-2, the second in a group of that name, and the files of the first.
func rolloutsServer(t *testing.T) map[string]string {
	t.Helper()

	answers := map[string]string{
		"/groups?id_prefix=ab&limit=100":    `{"groups":[{"group_id":"abd"}]}`,
		"/rollouts?id_prefix=ab&limit=100":  `{"rollouts":[{"rollout_id":"abc-1"},{"rollout_id":"abd-0","group_id":"abd"}]}`,
		"/groups?id_prefix=abc&limit=100":   `{"groups":[]}`,
		"/rollouts?id_prefix=abc&limit=100": `{"rollouts":[{"rollout_id":"abc-1"}]}`,
		"/groups?limit=100":                 `{"groups":[{"group_id":"abd"}]}`,
		"/rollouts?limit=100":               `{"rollouts":[{"rollout_id":"abc-1"}]}`,
		"/rollouts?detail=true&limit=20":    `{"rollouts":[]}`,
		"/groups?id_prefix=abd&limit=100":   `{"groups":[{"group_id":"abd"}]}`,
		"/groups?limit=20":                  `{"groups":[]}`,
		"/hosts":                            `{"hosts":[{"name":"gpu-1"}]}`,
		"/groups?limit=2&status=done": `{"next":"next","groups":[{"group_id":"abd","task_id":"sum","outcome":"complete","size":3,` +
			`"replaced":1,"mean_reward":0.5,"started_at":"2026-03-01T12:00:00Z","finished_at":"2026-03-01T12:00:03Z"}]}`,
		"/rollouts?detail=true&group_id=abd&limit=20": `{"rollouts":[{"rollout_id":"abd-0","group_id":"abd"}]}`,
		"/rollouts/abc-1/logs/agent?":                 "agent says\n",
		"/rollouts/abc-1/logs/verifier?":              "verifier says\n",
		"/rollouts/abc-1/messages":                    `{"messages":[{"info":{"role":"user"}},{"info":{"role":"assistant"}}]}`,
		"/rollouts/abc-1/again":                       `{"rollout_id":"abc-2"}`,
		"/rollouts/abc-1/result":                      `{"files":{"/home/user/workdir/a/b.py":"x = 1\n","/home/user/workdir/../../../c":"out"}}`,
		"/groups?id_prefix=whole&limit=100":           `{"groups":[]}`,
		"/rollouts?id_prefix=whole&limit=100":         `{"rollouts":[{"rollout_id":"whole-1"}]}`,
		"/rollouts/whole/logs/agent?":                 "of the rollout whose id is whole\n",
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

			status := map[any]string{"whole": "done", "runs": "running"}[req.Params.Arguments["rollout_id"]]
			if status == "" {
				status = "unknown"
			}

			text = `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"{\"status\":\"` + status + `\"}"}]}}`
		case strings.HasPrefix(r.URL.Path, "/rollouts/runs/"):
			w.WriteHeader(http.StatusConflict)

			text = `{"detail":"rollout runs is not done yet","kind":"Conflict"}`
		default:
			w.WriteHeader(http.StatusNotFound)

			text = `{"detail":"none","kind":"NotFound"}`
		}

		_, _ = w.Write([]byte(text))
	}))
	t.Cleanup(srv.Close)

	return map[string]string{"ROLLOUTD_SERVER": srv.URL}
}

// A prefix of an id stands for the id if it is the only one; one that exists itself never stands for another.
func TestIDsMayBeShortened(t *testing.T) {
	t.Parallel()

	vars := rolloutsServer(t)

	code, out, errText := rolloutd(t.Context(), vars, "logs", "abc")
	require.Zero(t, code, errText)
	require.Equal(t, "agent says\n", out)

	code, _, errText = rolloutd(t.Context(), vars, "logs", "ab")
	require.Equal(t, 1, code)
	require.Contains(t, errText, `"ab" is a prefix of several ids, abd, abc-1: give more of it`)

	code, out, errText = rolloutd(t.Context(), vars, "logs", "whole")
	require.Zero(t, code, errText)
	require.Equal(t, "of the rollout whose id is whole\n", out)

	code, _, errText = rolloutd(t.Context(), vars, "trace", "zz")
	require.Equal(t, 1, code)
	require.NotContains(t, errText, "rolloutd ls --group zz", "nor is there a group of this id")

	code, out, errText = rolloutd(t.Context(), vars, "run", "--again", "abc", "--detach")
	require.Zero(t, code, errText)
	require.Equal(t, "abc-2\n", out)

	code, out, errText = rolloutd(t.Context(), vars, "ls", "--group", "abd")
	require.Zero(t, code, errText)
	require.Contains(t, out, "abd-0")

	code, _, errText = rolloutd(t.Context(), vars, "regrade", taskFile(t, "instruction: x\n"), "ab")
	require.Equal(t, 1, code)
	require.Contains(t, errText, `"ab" is a prefix of several ids`)
}

// Shells complete ids, names and the values of flags.
func TestCompletion(t *testing.T) {
	t.Parallel()

	vars := rolloutsServer(t)

	for args, want := range map[string]string{
		"abort .":                   "abd\nabc-1\n",
		"ls --group .":              "abd\n",
		"ls --outcome .":            "completed\nagent_failed\n",
		"ls --status .":             "running\ndone\n",
		"run --endpoint .":          "vllm\nopenai\nhf_router\nscripted\n",
		"produce --endpoint v":      "vllm\n",
		"upstream pause h":          "hf_router\n",
		"deliveries --state .":      "pending\ndelivered\n",
		"files cat abc .":           "a/b.py\n",
		"regrade set ab":            "abc-1\n",
		"hosts drain .":             "gpu-1\n",
		"run --grade .":             "fresh\nlive\nshared\n",
		"store prune --outcome inf": "infra_failed\n",
	} {
		words := strings.Fields(args)
		if last := len(words) - 1; words[last] == "." {
			words[last] = ""
		}

		code, out, errText := rolloutd(t.Context(), vars, append([]string{"__complete"}, words...)...)
		require.Zero(t, code, errText)
		require.Contains(t, out, want, args)
	}
}

// The hint of an error is right: a rollout that runs is followed, and a missing log is no group.
func TestHintsOfRollouts(t *testing.T) {
	t.Parallel()

	vars := rolloutsServer(t)

	_, _, errText := rolloutd(t.Context(), vars, "trace", "runs")
	require.Contains(t, errText, "rollout runs is not done yet; follow it:  rolloutd tail runs\n")

	_, _, errText = rolloutd(t.Context(), vars, "logs", "abc-1", "--log", "network")
	require.Equal(t, "rolloutd: none\n", errText)
}

func TestGroups(t *testing.T) {
	t.Parallel()

	vars := rolloutsServer(t)

	code, out, errText := rolloutd(t.Context(), vars, "groups", "--limit", "2", "--status", "done")
	require.Zero(t, code, errText)
	require.Equal(t, []string{"abd", "sum", "complete", "3", "1", "0.5", "3s"}, strings.Fields(strings.Split(out, "\n")[1])[:7])
	require.Contains(t, errText, "--cursor next")

	code, out, errText = rolloutd(t.Context(), vars, "groups", "--json")
	require.Zero(t, code, errText)
	require.JSONEq(t, `{"groups":[]}`, out)
}

// Ctrl-C ends a command that follows, and is no error of it.
func TestInterruptedTail(t *testing.T) {
	t.Parallel()

	ts := serveTools(t, map[string]string{"get_state": `{"rollout_id":"r1","status":"running"}`})
	ctx, cancel := context.WithCancelCause(t.Context())

	go func() {
		for asked := range ts.asked {
			if asked["tool"] == "events" {
				cancel(errors.New("interrupt signal received"))
				return
			}
		}
	}()

	code, _, errText := rolloutd(ctx, nil, "tail", "r1", "--server", ts.url)
	require.Equal(t, 130, code)
	require.Empty(t, errText)
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

	for _, args := range [][]string{
		{"show", "zz", "--json"},
		{"ls", "--json", "--server", "http://127.0.0.1:1"},
		{"ls", "--nonsense", "--json"},
		{"ls", "--limit", "--json"},
		{"hosts", "nonsense", "--json"},
	} {
		code, out, errText = rolloutd(t.Context(), vars, args...)
		require.Equal(t, 1, code)

		var said struct{ Error cli.JSONError }
		require.NoError(t, json.Unmarshal([]byte(out), &said), out)
		require.NotEmpty(t, said.Error.Kind)
		require.NotEqual(t, fault.Internal, said.Error.Kind, args)
		require.Contains(t, errText, said.Error.Message)
	}
}
