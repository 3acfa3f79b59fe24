package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// In black_box mode the gateway forwards the agent's calls in the same way but keeps no turns. The rollout
// is graded in the same way, and its result has the mode.
func TestBlackBox(t *testing.T) {
	t.Parallel()
	model := startModel(t, `
- match: work unseen
  turns:
    - tool_calls: [{name: bash, arguments: {command: "echo one > log.txt", description: "One"}}]
    - text: Done.
`)

	srv := startDev(t, devOptions{modelURL: model.url})
	result := runRollout(t, srv.url, args{
		"instruction": "work unseen",
		"endpoint":    "scripted",
		"mode":        string(rollout.BlackBox),
		"verify":      []string{"test -s log.txt"},
	})
	require.Equal(t, rollout.Completed, result.Outcome, deref(result.Error))
	require.InDelta(t, 1.0, *result.Reward, 0)
	require.Equal(t, rollout.BlackBox, result.Mode)
	require.Empty(t, result.ProxyTurns)
}
