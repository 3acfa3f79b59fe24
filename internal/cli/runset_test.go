package cli_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/cli"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// A solution proves a task by the full reward, whatever the status of its last command.
func TestOracleProblem(t *testing.T) {
	t.Parallel()

	full, half, why := 1.0, 0.5, "oracle exited with code 1"
	for _, c := range []struct {
		outcome rollout.Outcome
		reward  *float64
		problem string
	}{
		{rollout.Completed, &full, ""},
		{rollout.AgentFailed, &full, ""},
		{rollout.AgentFailed, &half, "oracle: agent_failed: oracle exited with code 1"},
		{rollout.AgentFailed, nil, "oracle: agent_failed: oracle exited with code 1"},
		{rollout.AgentTimeout, &full, "oracle: agent_timeout: oracle exited with code 1"},
		{rollout.Completed, nil, "oracle: the task has no verifier: it must have verify or test_script"},
	} {
		r := cli.TaskResult{Result: rollout.Result{Outcome: c.outcome, Reward: c.reward, Error: &why}}
		require.Equal(t, c.problem, r.OracleProblem(), "%+v", c)
	}
}
