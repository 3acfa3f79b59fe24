package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Every model call of an agent has the rollout's sampling parameters. The result says whether the rollout is for training
// or evaluation.
func TestSamplingOfARollout(t *testing.T) {
	t.Parallel()
	srv := startDev(t, devOptions{})

	for purpose, tc := range map[string]struct {
		pins  args
		want  string
		kind  rollout.RolloutType
		trust bool
	}{
		"train": {args{
			"agent":       rollout.AgentOpencode,
			"temperature": 0.7,
			"seed":        3,
		}, `{"temperature":0.7,"top_p":1,"top_k":-1,"min_p":0,"repetition_penalty":1,"presence_penalty":0,"frequency_penalty":0,"seed":3,"max_tokens":4096}`, rollout.TypeTrain, true},
		"eval": {args{
			"agent":       rollout.AgentReact,
			"react":       args{"tools": "native"},
			"temperature": 0,
			"top_k":       5,
		}, `{"temperature":0,"top_k":5,"max_tokens":4096}`, rollout.TypeEval, false},
	} {
		task := args{
			"instruction": "Write binary_search.py with a function binary_search(items, target)",
			"endpoint":    "scripted",
			"purpose":     purpose,
			"verify":      []string{"true"},
		}
		for name, v := range tc.pins {
			task[name] = v
		}

		result := runRollout(t, srv.url, task)
		require.Equal(t, rollout.Completed, result.Outcome, deref(result.Error))
		require.Equal(t, tc.kind, result.RolloutType)
		require.Equal(t, rollout.CaptureTokens, result.CaptureLevel)
		require.NotNil(t, result.Sampling)

		if tc.trust {
			require.Equal(
				t,
				rollout.LogprobsProcessed,
				result.LogprobsMode,
				"the endpoint was probed: %v",
				result.Findings,
			)
			require.Equal(t, true, *result.ToolSupport)
			require.Empty(t, result.Findings)
		}

		agent := 0

		for _, turn := range result.ProxyTurns {
			require.JSONEq(t, tc.want, string(turn.SamplingParams))
			require.Contains(t, turn.Response, "choices")

			if turn.Kind == rollout.KindAgent {
				agent++

				require.Equal(t, tc.trust, turn.Train, "%v %v", turn.Flaws, turn.Broken)
				require.Contains(t, turn.Request, "tools")
			}
		}

		require.Positive(t, agent)
		require.NotNil(t, result.AgentExitCode)
	}
}
