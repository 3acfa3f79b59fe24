package rollouts_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// A repeated score reaches the workflow once. The same score for another attempt reaches it again: without
// it the attempt has no reward.
func TestScoreOfAnotherAttempt(t *testing.T) {
	t.Parallel()
	rc, f, _ := newClient(t)
	_, err := rc.Start(t.Context(), spec("r1"))
	require.NoError(t, err)

	one := rollout.Score{Score: 1}
	for range 2 {
		require.NoError(t, rc.Score(t.Context(), "r1", one))
	}

	require.Equal(t, []rollout.Score{one}, f.scores)
	f.workflows[rollout.WorkflowID("r1")].state.Attempt++

	require.NoError(t, rc.Score(t.Context(), "r1", one))
	require.Equal(t, []rollout.Score{one, one}, f.scores)

	further := rollout.Score{Score: 1, Turns: []rollout.TurnReward{{Turn: 1, Reward: 2}}}
	for range 2 {
		require.NoError(t, rc.Score(t.Context(), "r1", further))
	}

	require.Equal(t, []rollout.Score{one, one, further}, f.scores, "other rewards are another score")
}
