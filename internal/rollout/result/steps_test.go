package result_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/grading"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/rollout/result"
	"github.com/rolloutd/rolloutd/internal/store"
)

// Each step has what its verifier wrote; that of the last one is in the result itself.
func TestOutputOfSteps(t *testing.T) {
	t.Parallel()

	st, err := store.Open(t.Context(), t.TempDir())
	require.NoError(t, err)

	defer st.Close()

	head := result.Head{Outcome: rollout.Completed}

	for n, name := range []string{"first", "skipped", "last"} {
		head.Steps = append(head.Steps, rollout.StepResult{Name: name, Attempt: n + 1, Outcome: rollout.Completed})

		if name != "skipped" {
			require.NoError(t, st.PutJSON(t.Context(), store.AttemptKey("r", n+1, store.Grading), grading.Record{
				Reward: new(1.0), Stdout: name + " stdout", Stderr: name + " stderr",
				Script:   &rollout.CommandResult{ExitCode: n + 1},
				Commands: []rollout.CommandResult{{Cmd: name}},
				// a step's script cannot know the numbers of its turns
				TurnRewards: []rollout.TurnReward{{Turn: 1, Reward: 1}},
			}))
		}
	}

	composer := result.Composer{
		Store: st, Logger: slog.New(slog.DiscardHandler), Target: rollout.Target{RolloutID: "r", Attempt: 3}, Head: head,
	}
	res, err := composer.Compose(t.Context())
	require.NoError(t, err)

	first := res.Steps[0]
	require.Equal(t, []string{"first stdout", "first stderr"}, []string{first.VerifierStdout, first.VerifierStderr})
	require.Equal(t, 1, *first.TestExitCode)
	require.Equal(t, "first", first.VerifyResults[0].Cmd)

	require.Empty(t, res.Steps[1].VerifierStdout)
	require.Empty(t, res.Steps[2].VerifierStdout, "the result has it")
	require.Equal(t, "last stdout", res.VerifierStdout)
	require.Equal(t, 3, *res.TestExitCode)
	require.Empty(t, res.TurnRewards)
}

// The result of a task without steps has the rewards of turns that its script wrote, and names the blobs of the attempt.
func TestRewardsOfTurnsAndLinks(t *testing.T) {
	t.Parallel()

	st, err := store.Open(t.Context(), t.TempDir())
	require.NoError(t, err)

	defer st.Close()

	turns := []rollout.TurnReward{{Turn: 1, Reward: 0.5}}
	require.NoError(t, st.PutJSON(t.Context(), store.AttemptKey("r", 1, store.Grading), grading.Record{
		Reward: new(1.0), TurnRewards: turns, Script: &rollout.CommandResult{},
	}))
	_, err = st.Put(t.Context(), store.AttemptKey("r", 1, store.RoutedExperts), strings.NewReader("rows"))
	require.NoError(t, err)

	composer := result.Composer{
		Store: st, Logger: slog.New(slog.DiscardHandler), Target: rollout.Target{RolloutID: "r", Attempt: 1},
		Head: result.Head{Outcome: rollout.Completed},
	}
	res, err := composer.Compose(t.Context())
	require.NoError(t, err)

	require.Equal(t, turns, res.TurnRewards)
	require.Equal(t, store.AttemptKey("r", 1, store.RoutedExperts), res.Links["routed_experts"])
}
