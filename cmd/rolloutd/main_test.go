package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// tools is a server whose tools return fixed texts. It records their arguments.
type tools struct {
	url   string
	texts map[string]string
	asked chan map[string]any
}

func serveTools(t *testing.T, texts map[string]string) *tools {
	t.Helper()

	ts := &tools{texts: texts, asked: make(chan map[string]any, 100)}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/events") {
			ts.events(w, r)
			return
		}

		// no id begins with another
		if r.Method == http.MethodGet && !strings.Contains(r.URL.Path[1:], "/") {
			_, _ = io.WriteString(w, "{}")
			return
		}

		if strings.HasPrefix(r.URL.Path, "/groups/") {
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"detail":"no group","kind":"NotFound"}`)

			return
		}

		var req struct {
			Params struct {
				Name      string
				Arguments map[string]any
			}
		}
		// an empty name has no text
		_ = json.NewDecoder(r.Body).Decode(&req)

		req.Params.Arguments["tool"] = req.Params.Name
		ts.asked <- req.Params.Arguments

		_ = json.NewEncoder(w).Encode(map[string]any{"jsonrpc": "2.0", "id": 1, "result": map[string]any{
			"content": []any{map[string]any{"type": "text", "text": ts.texts[req.Params.Name]}},
		}})
	}))
	t.Cleanup(srv.Close)
	ts.url = srv.URL

	return ts
}

// events returns the stream of a finished rollout if there is a result, and otherwise a stream that stays open.
func (ts *tools) events(w http.ResponseWriter, r *http.Request) {
	if ts.texts["finalize_rollout"] != "" {
		writeDone(w)
		return
	}

	ts.asked <- map[string]any{"tool": "events"}
	// if it fails, the client sees a broken connection
	_ = http.NewResponseController(w).Flush()

	<-r.Context().Done()
}

func writeDone(w io.Writer) { _, _ = io.WriteString(w, "id: 1\nevent: done\ndata: {}\n\n") }

// rolloutd runs the command with vars as its whole environment.
func rolloutd(ctx context.Context, vars map[string]string, args ...string) (code int, stdout, stderr string) {
	var out, err strings.Builder

	code = run(ctx, args, std{&out, &err, vars})

	return code, out.String(), err.String()
}

func taskFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "task.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))

	return path
}

func done(outcome, reward string) map[string]string {
	return map[string]string{
		"start_rollout":    `{"rollout_id":"r1"}`,
		"get_state":        `{"rollout_id":"r1","status":"done","phase":"done"}`,
		"finalize_rollout": `{"rollout_id":"r1","outcome":"` + outcome + `","reward":` + reward + `}`,
	}
}

func TestRunExitsWithTheOutcome(t *testing.T) {
	t.Parallel()

	task := taskFile(t, "instruction: x\n")
	for outcome, want := range map[string]int{"completed": 0, "agent_timeout": 11, "infra_failed": 32} {
		ts := serveTools(t, done(outcome, "null"))
		code, out, errText := rolloutd(t.Context(), nil, "run", task, "--server", ts.url)
		require.Equal(t, want, code, errText)
		require.Contains(t, out, "outcome   "+outcome)
		require.Contains(t, out, "reward    none (")
		require.Contains(t, errText, "rollout r1")
	}
}

func TestRunSendsTheTaskAndTheFlags(t *testing.T) {
	t.Parallel()
	ts := serveTools(t, done("completed", "1"))
	code, out, errText := rolloutd(
		t.Context(),
		map[string]string{"MY_KEY": "sk-1", "ROLLOUTD_SERVER": ts.url},
		"run",
		taskFile(t, "id: t\ninstruction: x\n"),
		"--base-url",
		"http://gpu/v1",
		"--model",
		"m",
		"--api-key-env",
		"MY_KEY",
		"--rollout-id",
		"r1",
		"--purpose",
		"eval",
		"--price",
		"0.15/0.6",
		"--sampling",
		`{"temperature":0}`,
		"--json",
	)
	require.Equal(t, 0, code, errText)
	require.JSONEq(t, `{"rollout_id":"r1","outcome":"completed","reward":1}`, out)
	require.Equal(t, map[string]any{
		"tool":          "start_rollout",
		"task_id":       "t",
		"instruction":   "x",
		"base_url":      "http://gpu/v1",
		"model":         "m",
		"api_key":       "sk-1",
		"rollout_id":    "r1",
		"purpose":       "eval",
		"eval_sampling": map[string]any{"temperature": 0.0},
		"price":         map[string]any{"prompt": 0.15, "completion": 0.6},
	}, <-ts.asked)
	require.NotContains(t, errText, "sk-1")
}

func TestRunRefusesWithoutARequest(t *testing.T) {
	t.Parallel()
	code, _, errText := rolloutd(
		t.Context(),
		nil,
		"run",
		taskFile(t, "instruction: x\nverfy: [a]\n"),
		"--server",
		"http://127.0.0.1:1",
	)
	require.Equal(t, 1, code)
	require.Contains(t, errText, "line 2: field verfy")
	code, _, errText = rolloutd(t.Context(), nil, "run", taskFile(t, "instruction: x\n"), "--api-key-env", "NONE")
	require.Equal(t, 1, code)
	require.Contains(t, errText, "NONE is not set")
}

func TestWithoutAServerTheErrorSaysHowToStartOne(t *testing.T) {
	t.Parallel()

	for _, args := range [][]string{{"run", taskFile(t, "instruction: x\n")}, {"show", "r1"}, {"tail", "r1"}, {"abort", "r1"}} {
		code, _, errText := rolloutd(t.Context(), nil, append(args, "--server", "http://127.0.0.1:1")...)
		require.Equal(t, 1, code)
		require.Contains(t, errText, "start one with:  rolloutd-dev", args[0])
	}
}

// An error of a running server has no advice to start one.
func TestErrorOfAServerWithoutTemporal(t *testing.T) {
	t.Parallel()

	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"error":{"code":-32603,"message":"Temporal: late","data":{"kind":"Unavailable"}}}`)
	}))
	t.Cleanup(srv.Close)

	for _, args := range [][]string{{"run", taskFile(t, "instruction: x\n")}, {"show", "r1"}, {"tail", "r1"}, {"abort", "r1"}} {
		code, _, errText := rolloutd(t.Context(), nil, append(args, "--server", srv.URL)...)
		require.Equal(t, 1, code)
		require.Equal(t, "rolloutd: Temporal: late\n", errText, args[0])
	}
}

// A command that stops waiting prints how to return to the rollout. Each reason has its own exit code for scripts.
func TestRunThatStopsWaitingLeavesTheRollout(t *testing.T) {
	t.Parallel()

	texts := map[string]string{"start_rollout": `{"rollout_id":"r1"}`}
	ts := serveTools(t, texts)
	task := taskFile(t, "instruction: x\n")
	code, out, errText := rolloutd(t.Context(), nil, "run", task, "--server", ts.url, "--timeout", "3s", "--json")
	require.Equal(t, 124, code)
	require.Contains(t, errText, "rolloutd show r1")
	require.JSONEq(t, `{"error":{"message":"--timeout ran out"}}`, out)

	ctx, cancel := context.WithCancel(t.Context())
	ts = serveTools(t, texts)
	// ends with the second call
	go func() {
		// start_rollout
		<-ts.asked
		// its events
		<-ts.asked
		cancel()
	}()

	code, out, errText = rolloutd(ctx, nil, "run", task, "--server", ts.url, "--json")
	require.Equal(t, 130, code)
	require.JSONEq(t, `{"error":{"message":"interrupted"}}`, out)
	require.Contains(t, errText, "rolloutd abort r1")
}

// A detached run prints only the id, for scripts, and sends no further request.
func TestDetachedRun(t *testing.T) {
	t.Parallel()
	ts := serveTools(t, map[string]string{"start_rollout": `{"rollout_id":"r1","task_id":"t","status":"starting"}`})
	task := taskFile(t, "instruction: x\n")
	code, out, errText := rolloutd(t.Context(), nil, "run", task, "--detach", "--server", ts.url)
	require.Zero(t, code, errText)
	require.Equal(t, "r1\n", out)
	require.Empty(t, errText)
	code, out, _ = rolloutd(t.Context(), nil, "run", task, "--detach", "--json", "--server", ts.url)
	require.Zero(t, code)
	require.JSONEq(t, `{"rollout_id":"r1","task_id":"t","status":"starting"}`, out)
	require.Len(t, ts.asked, 2)

	other := taskFile(t, "instruction: y\n")
	code, out, errText = rolloutd(t.Context(), nil, "run", task, other, "--detach", "--server", ts.url)
	require.Zero(t, code, errText)
	require.Equal(t, "r1\nr1\n", out)
	require.Len(t, ts.asked, 4)

	for _, want := range []string{"x", "x", "x", "y"} {
		require.Equal(t, want, (<-ts.asked)["instruction"])
	}

	code, _, errText = rolloutd(t.Context(), nil, "run", task, "--detach", "--timeout", "1s", "--server", ts.url)
	require.Equal(t, 1, code)
	require.Contains(t, errText, "[detach timeout]")
}

func TestShow(t *testing.T) {
	t.Parallel()
	ts := serveTools(t, map[string]string{
		"get_state": `{"rollout_id":"r1","status":"running","phase":"running_agent","attempt":1,"proxy_turns_so_far":3}`,
	})
	code, out, _ := rolloutd(t.Context(), nil, "show", "r1", "--server", ts.url)
	require.Equal(t, 0, code)
	require.Contains(t, out, "running_agent, attempt 1, 3 model calls")
	code, out, _ = rolloutd(t.Context(), nil, "state", "r1", "--state", "--server", ts.url)
	require.Equal(t, 0, code)
	require.Contains(t, out, `"phase": "running_agent"`)
	code, out, _ = rolloutd(t.Context(), nil, "show", "r1", "--json", "--server", ts.url)
	require.Equal(t, 0, code)
	require.True(t, json.Valid([]byte(out)), "--json prints JSON for a running rollout too: %s", out)

	ts = serveTools(t, done("completed", "1"))
	code, out, _ = rolloutd(t.Context(), nil, "show", "r1", "--server", ts.url)
	require.Equal(t, 0, code)
	require.Contains(t, out, "reward    1")

	ts = serveTools(t, map[string]string{"get_state": `{"rollout_id":"r1","status":"unknown"}`})
	code, _, errText := rolloutd(t.Context(), nil, "show", "r1", "--server", ts.url)
	require.Equal(t, 1, code)
	require.Contains(t, errText, `has no rollout or group "r1"`)
}

func TestAbort(t *testing.T) {
	t.Parallel()
	ts := serveTools(t, map[string]string{"abort_rollout": `{"rollout_id":"r1","aborted":true}`})
	code, out, _ := rolloutd(t.Context(), nil, "abort", "r1", "--server", ts.url)
	require.Equal(t, 0, code)
	require.Contains(t, out, "aborting rollout r1")
	ts = serveTools(
		t,
		map[string]string{"abort_rollout": `{"rollout_id":"r1","aborted":false,"reason":"already done"}`},
	)
	code, _, errText := rolloutd(t.Context(), nil, "abort", "r1", "--server", ts.url)
	require.Equal(t, 1, code)
	require.Contains(t, errText, "not aborted: already done")
	ts = serveTools(t, map[string]string{"abort_rollout": `{"rollout_id":"r1","aborted":false,"reason":"unknown"}`})
	code, _, errText = rolloutd(t.Context(), nil, "abort", "r1", "--server", ts.url)
	require.Equal(t, 1, code)
	require.Contains(t, errText, `has no rollout or group "r1"`)
}

func TestRolesRefuseABadConfiguration(t *testing.T) {
	t.Parallel()

	for _, role := range []string{"serve", "worker", "gateway", "model"} {
		code, _, errText := rolloutd(t.Context(), map[string]string{
			"ROLLOUTD_LISTEN":     "0.0.0.0:8000",
			"OPENENV_SERVER_MODE": "x",
		}, role, "--data", t.TempDir())
		require.Equal(t, 1, code)
		require.Contains(t, errText, "serve.mode", role)
		require.Contains(t, errText, "serve.tokens", role)
	}
}

// A misspelled variable is refused, because it would be ignored silently.
func TestMisspeltVariablesAreRefused(t *testing.T) {
	t.Parallel()

	vars := map[string]string{"ROLLOUTD_DTAA": "/nowhere", "ROLLOUTD_SERVR": "http://127.0.0.1:1"}
	for _, args := range [][]string{
		{"serve"}, {"worker"}, {"gateway"}, {"model"}, {"doctor"}, {"upstream", "show", "vllm"},
		{"run", taskFile(t, "instruction: x\n")}, {"ls"}, {"show", "r1"}, {"tail", "r1"}, {"trace", "r1"}, {"abort", "r1"},
	} {
		code, out, errText := rolloutd(t.Context(), vars, args...)
		require.Equal(t, 1, code, args)
		require.Empty(t, out)
		require.Contains(t, errText, "ROLLOUTD_DTAA: unknown variable; did you mean ROLLOUTD_DATA?", args)
		require.Contains(t, errText, "ROLLOUTD_SERVR: unknown variable; did you mean ROLLOUTD_SERVER?", args)
	}

	code, _, _ := rolloutd(t.Context(), vars, "version")
	require.Zero(t, code, "version reads no variable")
}

// The flag overrides the environment.
func TestServeModeByFlag(t *testing.T) {
	t.Parallel()

	serve := func(env, flag string) string {
		_, _, errText := rolloutd(t.Context(), map[string]string{
			"ROLLOUTD_LISTEN":     "0.0.0.0:8000",
			"OPENENV_SERVER_MODE": env,
		}, "serve", "--mode", flag, "--data", t.TempDir())
		require.Contains(t, errText, "serve.tokens", "serve does not start without tokens")

		return errText
	}
	require.Contains(t, serve("production", "x"), `serve.mode: must be simulation or production, got "x"`)
	require.NotContains(t, serve("x", "production"), "serve.mode")
}

func TestVersion(t *testing.T) {
	t.Parallel()
	code, out, _ := rolloutd(t.Context(), nil, "version")
	require.Equal(t, 0, code)
	require.NotEmpty(t, out)
}

func TestDoctorFailsWhereSandboxesCannotRun(t *testing.T) {
	t.Parallel()
	code, out, _ := rolloutd(
		t.Context(),
		map[string]string{"ROLLOUTD_SANDBOXD": "/nonexistent"},
		"doctor",
		"--data",
		t.TempDir(),
	)
	require.Equal(t, 1, code)
	require.Contains(t, out, "FAIL  sandboxes")
}

// A machine needs only what its own backends need.
func TestDoctorChecksTheConfiguredBackends(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "c.yaml")
	require.NoError(t, os.WriteFile(file, []byte("sandbox: {backends: {docker: {}}}"), 0o600))
	_, out, _ := rolloutd(
		t.Context(),
		map[string]string{"ROLLOUTD_SANDBOXD": "/nonexistent"},
		"doctor",
		"--config",
		file,
		"--data",
		t.TempDir(),
	)
	require.Equal(t, 1, strings.Count(out, "FAIL  sandboxes"), out)
}
