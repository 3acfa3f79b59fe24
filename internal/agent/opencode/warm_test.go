package opencode_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/agent/opencode"
	"github.com/rolloutd/rolloutd/internal/agent/opencode/binary"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// newWarmTestAgent is like newTestAgent, with an agent that was warmed for job before the model was available.
func newWarmTestAgent(t *testing.T, script string, job agent.Job) *testAgent {
	t.Helper()
	w := newTestAgentWithoutModel(t, true)
	serve := func(ctx context.Context, h http.Handler) error { return w.Backend.ServeModel(ctx, w.ID(), h, nil) }
	require.NoError(t, w.agent().Warm(t.Context(), w.Env(), job, serve))
	w.ServeModel(t, script)

	return w
}

const inspecting = `
turns:
  - tool_calls: [{name: bash, arguments: {command: "env | grep -v PID | sort; find ~ /tmp -mindepth 1 | sort", description: "Looks"}}]
  - tool_calls: [{name: read, arguments: {filePath: /home/user/workdir/a.txt}}]
  - text: done
`

// A warm agent sends its model the same requests as a cold one, byte for byte, although the task's setup
// ran after its start. It also leaves the same files.
func TestWarmAgentSendsTheRequestsOfAColdOne(t *testing.T) {
	t.Parallel()

	if testing.Short() {
		t.Skip("needs the real OpenCode")
	}

	job := agent.Job{Instruction: "Look around.", MaxOutput: 1234, Launch: 1}
	setup := func(w *testAgent) {
		t.Helper()

		command := `git init -q . && echo hello > a.txt && mkdir -p ~/.config/opencode/agent &&
			echo "Be brief." > ~/.config/opencode/AGENTS.md && printf -- '---\nmode: primary\n---\nBe kind.' > ~/.config/opencode/agent/build.md`
		out, status := w.bash(t, "setup-1", command)
		require.Zero(t, status, out)
	}

	cold := newTestAgent(t, inspecting)
	setup(cold)
	require.Zero(t, cold.finish(t, cold.begin(t, cold.agent(), job)).ExitCode)

	other := job
	other.Instruction = "Something else."
	warm := newWarmTestAgent(t, inspecting, other)
	requireNoLaunch(t, warm, job)
	setup(warm)

	before := time.Now()
	r := warm.begin(t, warm.agent(), job)
	requireLaunchedAfter(t, warm, r, before)
	require.Zero(t, warm.finish(t, r).ExitCode)

	requests := warm.requests(t)
	require.Len(t, requests, 3)
	require.Equal(t, cold.requests(t), requests)
	require.Contains(t, requests[0], "Be brief.")
	require.Contains(t, requests[0], "Be kind.")
	require.Contains(t, requests[0], "git repo: yes")
	require.Contains(t, requests[2], "OPENCODE_CONFIG_CONTENT")
}

// requireNoLaunch checks that a warm agent has no launch until it gets its job.
func requireNoLaunch(t *testing.T, w *testAgent, job agent.Job) {
	t.Helper()

	ready, err := w.agent().Ready(t.Context(), w.Env())
	require.NoError(t, err)
	require.True(t, ready)

	_, err = w.agent().Attach(t.Context(), w.Env(), job)
	require.True(t, fault.Is(err, fault.NotFound), "%v", err)

	summary, err := w.agent().Install(t.Context(), w.Env())
	require.NoError(t, err)
	require.Contains(t, summary, "warm")
}

// requireLaunchedAfter checks that the time of a warm agent counts from when it got its job.
func requireLaunchedAfter(t *testing.T, w *testAgent, r agent.Run, before time.Time) {
	t.Helper()

	require.True(t, r.Launch().First.After(before))
	require.True(t, w.attach(t).Launch().First.After(before))

	ready, err := w.agent().Ready(t.Context(), w.Env())
	require.NoError(t, err)
	require.False(t, ready, "it has a job")
}

// requests returns the bodies of the agent's model calls.
func (w *testAgent) requests(t *testing.T) []string {
	t.Helper()

	var bodies []string
	for _, s := range w.Sent(t) {
		bodies = append(bodies, string(s.Request))
	}

	return bodies
}

// OpenCode reads the user's configuration once. If the setup wrote one, the warm process ends, and the next
// launch reads the configuration.
func TestWarmAndTheUsersConfiguration(t *testing.T) {
	t.Parallel()

	job := agent.Job{Instruction: "go", Launch: 1}
	w := newWarmTestAgent(t, "turns: [{text: done}]", job)
	require.NoError(
		t,
		w.WriteFile(t.Context(), rollout.Workdir+"/rules.md", strings.NewReader("Speak like a pirate."), 0o644),
	)
	require.NoError(t, w.WriteFile(t.Context(), rollout.Home+"/.config/opencode/opencode.json",
		strings.NewReader(`{"instructions": ["/home/user/workdir/rules.md"]}`), 0o644))
	st := w.finish(t, w.begin(t, w.agent(), job))
	require.NotZero(t, st.ExitCode)
	require.Empty(t, w.Sent(t))

	job.Launch = 2
	require.Zero(t, w.finish(t, w.begin(t, w.agent(), job)).ExitCode)
	require.Contains(t, string(w.Sent(t)[0].Request), "Speak like a pirate.")
}

func TestWarmKey(t *testing.T) {
	t.Parallel()

	a := opencode.New(opencode.Options{Binary: binary.New(binary.Options{})})
	key := a.WarmKey(agent.Job{MaxOutput: 10, Instruction: "a"})
	require.Equal(t, key, a.WarmKey(agent.Job{
		MaxOutput:   10,
		Instruction: "b",
		Launch:      1,
		Model:       rollout.Model{Name: "m"},
	}))
	require.NotEqual(t, key, a.WarmKey(agent.Job{MaxOutput: 11}))
	require.NotEqual(
		t,
		key,
		opencode.New(opencode.Options{Binary: binary.New(binary.Options{Version: "0"})}).
			WarmKey(agent.Job{MaxOutput: 10}),
	)
	require.Empty(t, a.WarmKey(agent.Job{ObeyProject: true}))
}
