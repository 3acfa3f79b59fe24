package trajectory_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// The table has the branch of each call in a session with a title, a subagent and a summary.
func TestBranches(t *testing.T) {
	t.Parallel()
	l := openLog(t)

	steps := []struct {
		kind    rollout.TurnKind
		lineage string
		broken  string

		// the agent did not receive the reply
		lost bool
		want rollout.Branch
	}{
		{rollout.KindTitle, "a", "", false, rollout.BranchAuxiliary},
		{rollout.KindAgent, "a", "", false, rollout.BranchRoot},
		{rollout.KindSubagent, "a/b", "", false, rollout.BranchSubagent},
		{rollout.KindSummary, "a", "aborted: by hand", true, rollout.BranchAuxiliary},
		{rollout.KindSummary, "a", "", true, rollout.BranchAuxiliary},
		{rollout.KindAgent, "a", "", false, rollout.BranchRoot},
		{rollout.KindSummary, "a", "", false, rollout.BranchAuxiliary},
		{rollout.KindAgent, "a", "", false, rollout.BranchCompacted},
		{rollout.KindSubagent, "a/b", "", false, rollout.BranchSubagent},
		{rollout.KindAgent, "c", "", false, rollout.BranchRoot},
		{rollout.KindAgent, "a", "failed: no answer", true, rollout.BranchCompacted},
	}
	for i, s := range steps {
		r := turnRecord(i+1, string(rune('a'+i)))
		r.Kind, r.Lineage, r.Broken = s.kind, s.lineage, s.broken
		require.NoError(t, l.Append(r))

		if !s.lost {
			require.NoError(t, l.Delivered(i+1))
		}
	}

	for i, turn := range turnsOf(t, l) {
		require.Equal(t, steps[i].want, turn.Branch, "turn %d", i+1)
	}
}
