package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// producers is a server with one producer, which is done at the second request.
type producers struct {
	mu sync.Mutex

	// by path
	asked map[string]map[string]any
	looks int

	// outcome
	end string
}

func (p *producers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()

	body := map[string]any{}
	// a GET has no body
	_ = json.NewDecoder(r.Body).Decode(&body)
	p.asked[r.Method+" "+r.URL.Path] = body
	answer := map[string]any{
		"producer_id": "p",
		"phase":       "running",
		"done":        false,
		"counts":      map[string]any{"started": 3, "delivered": p.looks},
	}

	switch {
	case r.Method == http.MethodPost && r.URL.Path == "/producers":
		answer["broken"] = []string{"c.yaml: broken"}

		w.WriteHeader(http.StatusAccepted)
	case r.URL.Path == "/producers":
		answer = map[string]any{"producers": []any{answer}, "next": "abc"}
		p.asked["list"] = map[string]any{"query": r.URL.RawQuery}
	case r.Method == http.MethodGet:
		if p.looks++; p.looks > 1 {
			answer["phase"], answer["outcome"], answer["waiting"] = "done", p.end, "all steps are done"
			answer["evaluated"] = []any{map[string]any{"step": 5, "rollouts": 4, "sum": 2, "passed": 1}}
		}
	}

	_ = json.NewEncoder(w).Encode(answer)
}

func serveProducers(t *testing.T, end string) (*producers, map[string]string) {
	t.Helper()

	p := &producers{asked: map[string]map[string]any{}, end: end}
	srv := httptest.NewServer(p)
	t.Cleanup(srv.Close)

	return p, map[string]string{"ROLLOUTD_SERVER": srv.URL}
}

func TestProduce(t *testing.T) {
	t.Parallel()

	dir := taskFolder(t, map[string]string{"a.yaml": "instruction: a\n", "b.yaml": "instruction: b\n"})
	for end, want := range map[string]int{"completed": 0, "stopped": 0, "aborted": 20, "failed": 1} {
		p, env := serveProducers(t, end)
		code, out, errText := rolloutd(
			t.Context(),
			env,
			"produce",
			"--tasks",
			dir,
			"--task",
			"b",
			"--group-size",
			"4",
			"--sink",
			"s",
			"--endpoint",
			"scripted",
			"--shuffle",
			"9",
			"--keep-equal",
		)
		require.Equal(t, want, code, errText)

		body := p.asked["POST /producers"]
		require.Equal(t, []any{map[string]any{"instruction": "b", "task_id": "b"}}, body["tasks"])
		require.Equal(t, map[string]any{"endpoint": "scripted"}, body["rollout"])
		require.InDelta(t, 9, body["shuffle"], 0)
		require.Equal(t, map[string]any{"equal_scores": false, "max_tokens": 0.0}, body["filter"])
		require.Contains(t, errText, "left out: c.yaml: broken")
		require.Contains(t, errText, "3 started")
		require.Contains(t, out, "done "+end)
		require.Contains(t, out, "reason     all steps are done\n")
		require.Contains(t, out, "step 5: mean 0.5 of 4 rollouts, 1 passed")
	}
}

// As `run` does, produce builds the images of the tasks of this machine before it starts.
func TestProduceBuildsImages(t *testing.T) {
	t.Parallel()

	dir := taskFolder(t, map[string]string{
		"a/instruction.md":         "a",
		"a/task.toml":              "",
		"a/tests/test.sh":          "true",
		"a/environment/Dockerfile": "FROM scratch\nADD https://example.org/x /x\n",
	})
	p, env := serveProducers(t, "completed")
	env["ROLLOUTD_DATA"] = t.TempDir()

	code, _, errText := rolloutd(t.Context(), env, "produce", "--tasks", dir, "--group-size", "4", "--sink", "s")
	require.Equal(t, 1, code)
	require.Contains(t, errText, "a/environment")
	require.Empty(t, p.asked)
}

// A broken task is left out in plain sight.
func TestProduceNamesWhatItLeavesOut(t *testing.T) {
	t.Parallel()

	dir := taskFolder(t, map[string]string{"a.yaml": "instruction: a\n", "b.yaml": "instrucion: b\n"})
	p, env := serveProducers(t, "completed")
	code, _, errText := rolloutd(
		t.Context(), env, "produce", "--tasks", dir, "--skip-broken", "--group-size", "4", "--sink", "s",
	)
	require.Zero(t, code, errText)
	require.Len(t, p.asked["POST /producers"]["tasks"], 1)
	require.Regexp(t, "left out: .*b.yaml", errText)
}

func TestProduceByName(t *testing.T) {
	t.Parallel()
	p, env := serveProducers(t, "completed")
	code, out, errText := rolloutd(
		t.Context(),
		env,
		"produce",
		"--tasks",
		"math",
		"--shard",
		"1/4",
		"--group-size",
		"4",
		"--sink",
		"s",
		"--total-steps",
		"100",
		"--eval",
		"held-out",
		"--detach",
	)
	require.Zero(t, code, errText)
	require.Equal(t, "p\n", out)

	body := p.asked["POST /producers"]
	require.Equal(t, "math", body["task_set"])
	require.InDelta(t, 4, body["select"].(map[string]any)["shards"], 0)
	require.NotContains(t, body, "epochs", "the steps bound the producer")
	require.Equal(t, "held-out", body["eval"].(map[string]any)["task_set"])
}

func TestChangeAProducer(t *testing.T) {
	t.Parallel()

	p, env := serveProducers(t, "completed")
	for command, want := range map[string]string{
		"pause p":                  `{"paused":true}`,
		"resume p --concurrency 8": `{"paused":false,"concurrency":8}`,
		// the server refuses it
		"resume p --concurrency -5": `{"paused":false,"concurrency":-5}`,
		"stop p":                    `{"stop":true}`,
	} {
		code, _, errText := rolloutd(t.Context(), env, append([]string{"produce"}, strings.Fields(command)...)...)
		require.Zero(t, code, errText)

		text, err := json.Marshal(p.asked["POST /producers/p/change"])
		require.NoError(t, err)
		require.JSONEq(t, want, string(text))
	}

	code, _, errText := rolloutd(t.Context(), env, "produce", "abort", "p")
	require.Zero(t, code, errText)
	require.NotEmpty(t, p.asked["POST /producers/p/abort"])
	code, out, errText := rolloutd(t.Context(), env, "produce", "ls", "--status", "running", "--cursor", "before")
	require.Zero(t, code)
	require.Equal(t, "cursor=before&limit=20&status=running", p.asked["list"]["query"])
	require.Regexp(t, `^PRODUCER +STATE +TASKS +STARTED\np +running +- +`, out)
	require.Equal(t, "more: repeat the command with --cursor abc\n", errText)
	code, _, _ = rolloutd(t.Context(), env, "produce", "--tasks", "x")
	require.Equal(t, 1, code, "--sink and --group-size are required")
}
