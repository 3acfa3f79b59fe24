package daemon

import (
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/searchindex"
	"github.com/rolloutd/rolloutd/internal/store"
)

// A list has the grade of a regrade, and not that of an earlier workflow, whose result the index reads again.
func TestCorrect(t *testing.T) {
	t.Parallel()

	st, err := store.Open(t.Context(), t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })

	index, err := searchindex.Open(t.Context(), filepath.Join(t.TempDir(), "search.db"), st, 0, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, index.Close()) })

	at := func(n int) time.Time { return time.Unix(int64(n), 0) }
	end := func(id string, reward float64, attempts ...rollout.Attempt) {
		r := rollout.NewResult(id)
		r.Outcome, r.Reward, r.Attempts = rollout.Completed, &reward, attempts
		require.NoError(t, st.PutJSON(t.Context(), store.HeadKey(id), r))
		require.NoError(t, index.Update(t.Context()))
	}
	correct := func() (rewards []float64) {
		list := []rollout.Listed{
			{ID: "again", Phase: rollout.PhaseDone, Reward: new(0.5), StartedAt: at(20)},
			{ID: "regraded", Phase: rollout.PhaseDone, Reward: new(0.5), StartedAt: at(5)},
			{ID: "runs", Phase: rollout.PhaseAgent, Reward: new(0.5), StartedAt: at(20)},
			{ID: "never", Phase: rollout.PhaseDone, Reward: new(0.5), StartedAt: at(20)},
		}
		require.NoError(t, search{index}.correct(t.Context(), list))

		for _, r := range list {
			rewards = append(rewards, *r.Reward)
		}

		return rewards
	}

	for _, id := range []string{"again", "regraded", "runs"} {
		end(id, 0, rollout.Attempt{Number: 1, StartedAt: at(6), EndedAt: at(10)})
	}

	end("never", 0)
	require.Equal(t, []float64{0.5, 0, 0.5, 0}, correct())

	grades, err := index.Grades(t.Context(), []string{"again", "runs"})
	require.NoError(t, err)
	require.Empty(t, grades, "it forgets them")

	end("again", 1, rollout.Attempt{Number: 1, StartedAt: at(21), EndedAt: at(30)})
	require.Equal(t, []float64{1, 0, 0.5, 0}, correct())
}
