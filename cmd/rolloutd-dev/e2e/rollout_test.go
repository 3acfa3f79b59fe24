package e2e

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/scripted"
	"github.com/rolloutd/rolloutd/internal/taskset"
	"github.com/rolloutd/rolloutd/internal/testkit/pyclient"
)

// A rollout of the demo task with the real agent in a real sandbox gets the full reward. Its history has
// the seven activities, its turns have token ids and log probabilities, its result has the files, and no
// sandbox remains. A trainer's own libraries (numpy, openenv and TRL's worker) read its trace.
func TestRolloutOfTheDemoTask(t *testing.T) {
	t.Parallel()
	model := startModel(t, "")
	srv := startDev(t, devOptions{modelURL: model.url})
	result := runRollout(t, srv.url, exampleArgs(t, "binary_search"))

	require.Equal(t, rollout.Completed, result.Outcome, deref(result.Error))
	require.NotNil(t, result.Reward)
	require.InDelta(t, 1.0, *result.Reward, 0)
	require.Equal(t, "binary_search", result.TaskID)
	require.Contains(t, result.Files, "/home/user/workdir/binary_search.py")
	require.NotEmpty(t, result.AgentLogTail)
	requireWholeTurns(t, result)
	requireTraceEqualsSent(t, model.sent, result)
	require.Subset(t, srv.activityNames(t, result.ID), []string{
		"CreateSandbox", "InstallOpencode", "StartProxy", "RunAgent", "RunVerifier", "CollectArtifacts", "CloseSandbox",
	})
	require.Equal(t, []string{"dev"}, srv.buildIDs(t, result.ID), "the version of the tests' build")
	require.Empty(t, srv.sandboxes(t))

	again := finalize(t, srv.url, result.ID)
	require.Equal(t, result, again, "the same id gives the same result")

	script := filepath.Join("..", "..", "..", "envserver", "testdata", "py", "export.py")
	pyclient.Interpreter(t, pyclient.Trainer()).Run(t, script, srv.url, result.ID, "2")
}

// The other introductory examples get the full reward.
func TestExamples(t *testing.T) {
	t.Parallel()

	srv := startDev(t, devOptions{})
	for _, name := range []string{"fizzbuzz", "csv_stats"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			task := exampleArgs(t, name)
			task["agent"] = rollout.AgentReact
			result := runRollout(t, srv.url, task)
			require.Equal(t, rollout.Completed, result.Outcome, deref(result.Error))
			require.NotNil(t, result.Reward)
			require.InDelta(t, 1.0, *result.Reward, 0, "%+v", result.VerifyResults)
		})
	}
}

// requireWholeTurns checks that every turn has token ids, and a log probability for each sampled token.
func requireWholeTurns(t *testing.T, result rollout.Result) {
	t.Helper()
	require.NotEmpty(t, result.ProxyTurns)

	for _, turn := range result.ProxyTurns {
		require.NotEmpty(t, turn.PromptTokenIDs, "turn %d", turn.Turn)
		require.NotEmpty(t, turn.CompletionTokenIDs, "turn %d", turn.Turn)
		require.Len(t, turn.PerTokenLogps, len(turn.CompletionTokenIDs), "turn %d", turn.Turn)
		require.NotEmpty(t, turn.FinishReason, "turn %d", turn.Turn)
		require.True(t, turn.Delivered, "turn %d", turn.Turn)
		require.Equal(t, http.StatusOK, turn.UpstreamStatus, "turn %d", turn.Turn)
	}
}

// requireTraceEqualsSent compares the captured tokens and log probabilities with the scripted model's log.
// Each turn must be one complete reply of the model, and each complete reply one turn.
func requireTraceEqualsSent(t *testing.T, sentLog string, result rollout.Result) {
	t.Helper()

	f, err := os.Open(sentLog)
	require.NoError(t, err)

	defer f.Close()

	type tokens struct {
		Prompt, Completion []int32
		Text               []string
		Logprobs           []float64
	}

	var sent, captured []tokens

	for dec := json.NewDecoder(f); dec.More(); {
		var s scripted.Sent
		require.NoError(t, dec.Decode(&s))

		if s.Complete {
			sent = append(sent, tokens{s.PromptTokenIDs, s.CompletionTokenIDs, s.CompletionTokens, s.Logprobs})
		}
	}

	for _, turn := range result.ProxyTurns {
		captured = append(
			captured,
			tokens{turn.PromptTokenIDs, turn.CompletionTokenIDs, turn.CompletionTokens, turn.PerTokenLogps},
		)
	}

	require.Equal(t, sent, captured)
}

// exampleArgs returns the tool arguments of a task file in examples/.
func exampleArgs(t *testing.T, name string) args {
	t.Helper()

	f, err := os.Open(filepath.Join("..", "..", "..", "examples", name+".yaml"))
	require.NoError(t, err)

	defer f.Close()

	task, err := taskset.ReadYAML(f)
	require.NoError(t, err)

	a := args(task.Arguments())
	a["endpoint"] = "scripted"

	return a
}
