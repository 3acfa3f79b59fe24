package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/store"
)

// reactScript plays four turns. Its commands have side effects that show whether a command was repeated.
const reactScript = `
- name: react
  match: count to three
  hermes: true
  pace: {delay: 300ms}
  turns:
    - reasoning: One.
      tool_calls:
        - {name: terminal, arguments: {command: "echo one >> log.txt; sleep 0.3"}}
        - {name: terminal, arguments: {command: "echo two >> log.txt; cat log.txt"}}
    - tool_calls: [{name: nonsense, arguments: {}}]
    - tool_calls: [{name: terminal, arguments: {command: "sleep 0.3; echo three >> log.txt"}}]
    - text: Done.
`

func reactArgs() args {
	return args{
		"instruction": "count to three", "endpoint": "scripted", "agent": "react",
		"verify": []string{"test \"$(cat log.txt)\" = \"$(printf 'one\\ntwo\\nthree')\""},
	}
}

// requireReact checks the result of reactScript: each side effect and each turn must occur once.
func requireReact(t *testing.T, result rollout.Result) {
	t.Helper()
	require.Equal(t, rollout.Completed, result.Outcome, deref(result.Error))
	require.NotNil(t, result.Reward)
	require.InDelta(t, 1.0, *result.Reward, 0, "%+v", result.VerifyResults)
	require.Len(t, result.Attempts, 1)
	whole := wholeTurns(result)
	require.Len(t, whole, 4)

	for _, turn := range whole {
		require.True(t, turn.Train, "turn %d: %v", turn.Turn, turn.Flaws)
		require.Nil(t, turn.PrefixBreak)
		require.Equal(t, rollout.BranchRoot, turn.Branch)
	}

	require.Contains(t, result.AgentLogTail, "terminal")
}

// wholeTurns returns the turns of a result that have a complete reply.
func wholeTurns(result rollout.Result) []rollout.CompactTurn {
	return slices.DeleteFunc(
		slices.Clone(result.ProxyTurns),
		func(turn rollout.CompactTurn) bool { return turn.Broken != "" },
	)
}

func TestReact(t *testing.T) {
	t.Parallel()
	model := startModel(t, reactScript)
	srv := startDev(t, devOptions{modelURL: model.url})
	byMessages := reactArgs()
	byMessages["react"] = args{"continuation": "messages"}
	result := finalize(t, srv.url, start(t, srv.url, byMessages))
	requireReact(t, result)
	require.Len(t, result.ProxyTurns, 4)
	require.Equal(t, 4, result.Usage.Turns)
	require.Contains(
		t,
		fmt.Sprint(result.ProxyTurns[2].Request["messages"]),
		"unknown tool",
		"the policy learns of its mistake",
	)
	require.Contains(t, fmt.Sprint(result.ProxyTurns[1].Request["messages"]), `"uniq_id": "call_1_2"`)

	byTokens := finalize(t, srv.url, start(t, srv.url, reactArgs()))
	requireReact(t, byTokens)
	require.Empty(t, srv.sandboxes(t))

	page := get(t, srv.metrics)
	for _, step := range []string{"RunAgent", "RunVerifier", "CollectArtifacts", "CloseSandbox"} {
		require.Regexp(t, `(?m)^temporal_activity_execution_latency_seconds_count\{activity_type="`+step+`".* 2$`, page)
		require.NotContains(
			t,
			page,
			`temporal_activity_schedule_to_start_latency_seconds_count{activity_type="`+step+`"`,
			"it came with the answer to a workflow task",
		)
	}
}

// The whole process is killed with kill -9 after each turn. Each side effect happens once, and no turn is repeated.
func TestReactKilled(t *testing.T) {
	t.Parallel()

	for turns := range 4 {
		t.Run(fmt.Sprint(turns), func(t *testing.T) {
			t.Parallel()
			model := startModel(t, reactScript)
			srv := startDev(t, devOptions{modelURL: model.url})
			id := start(t, srv.url, reactArgs())
			waitFor(t, srv.url, id, fmt.Sprintf("%d turns", turns), func(s state) bool {
				return s.Phase == rollout.PhaseAgent && s.Turns >= turns || reached(s.Phase, rollout.PhaseVerifying)
			})
			srv.kill()
			srv = srv.restart(t)
			requireReact(t, finalize(t, srv.url, id))
			require.Empty(t, srv.sandboxes(t))
		})
	}
}

// The whole process is killed with kill -9 while artifacts are collected or the sandbox is closed. The next
// process finishes the rollout.
func TestReactKilledAtItsEnd(t *testing.T) {
	t.Parallel()

	for name, reached := range map[string]func(data, id string) bool{
		"graded": func(data, id string) bool {
			_, err := os.Stat(filepath.Join(data, "store", store.AttemptKey(id, 1, store.Grading)))
			return err == nil
		},
		"route closed": func(data, id string) bool {
			_, stored := os.Stat(filepath.Join(data, "store", store.ResultKey(id)))
			_, route := os.Stat(filepath.Join(data, "gateway", rollout.Target{RolloutID: id, Attempt: 1}.SandboxID()))

			return stored == nil && route != nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			model := startModel(t, reactScript)
			srv := startDev(t, devOptions{modelURL: model.url})
			id := start(t, srv.url, reactArgs())
			require.Eventually(t, func() bool { return reached(srv.data, id) }, 4*time.Minute, time.Millisecond)
			srv.kill()
			srv = srv.restart(t)
			requireReact(t, finalize(t, srv.url, id))
			require.Empty(t, srv.sandboxes(t))
		})
	}
}
