package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// The agents oracle and nop help authors of tasks: the task's solution earns the full reward and doing
// nothing earns none. Neither agent needs a model.
func TestOracleAndNop(t *testing.T) {
	t.Parallel()

	srv := startDev(t, devOptions{})
	for agent, reward := range map[string]float64{rollout.AgentOracle: 1, rollout.AgentNop: 0} {
		t.Run(agent, func(t *testing.T) {
			t.Parallel()
			task := exampleArgs(t, "binary_search")
			delete(task, "endpoint")
			task["agent"] = agent
			result := runRollout(t, srv.url, task)
			require.Equal(t, rollout.Completed, result.Outcome, deref(result.Error))
			require.NotNil(t, result.Reward)
			require.InDelta(t, reward, *result.Reward, 0, "%+v", result.VerifyResults)
			require.Empty(t, result.ProxyTurns)
			require.Zero(t, *result.AgentExitCode)
		})
	}
}

// A failed command of the solution ends the rollout as agent_failed, and the error names the command.
func TestFailingSolution(t *testing.T) {
	t.Parallel()
	srv := startDev(t, devOptions{})
	result := runRollout(t, srv.url, args{
		"instruction": "fail",
		"agent":       rollout.AgentOracle,
		"solution":    []string{"echo fine", "echo broken >&2; exit 3"},
		"verify":      []string{"true"},
	})
	require.Equal(t, rollout.AgentFailed, result.Outcome)
	require.Equal(t, 3, *result.AgentExitCode)
	require.Contains(t, deref(result.Error), "solution command 2 failed")
	require.Contains(t, result.AgentLogTail, "fine")
}
