package result_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/grading"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/rollout/result"
	"github.com/rolloutd/rolloutd/internal/store"
)

// regraderOf returns the regrader of a rollout whose parts the verifier gave these rewards; nil: none.
func regraderOf(t *testing.T, st *store.Store, id string, parts []rollout.RegradePart, rewards ...*float64) result.Regrader {
	t.Helper()

	spec := rollout.RegradeSpec{ID: "x", RolloutID: id, Parts: parts, Verifier: "digest"}

	for n, reward := range rewards {
		record := grading.Record{Reward: reward, Grading: rollout.Grading{Status: rollout.Graded}, Stdout: "now"}
		if reward == nil {
			record.Grading = rollout.Grading{Status: rollout.NoUsableReward, Why: "bash cannot parse it"}
		}

		require.NoError(t, st.PutJSON(t.Context(), store.GradeKey(spec.Target(parts[n]), store.Grading), record))
	}

	return result.Regrader{Store: st, Spec: spec, StartedAt: time.Unix(1, 0), EndedAt: time.Unix(2, 0)}
}

func part(step string, attempt int) rollout.RegradePart {
	return rollout.RegradePart{
		Step: step, Attempt: attempt, Outcome: rollout.Completed, Verifier: rollout.Verifier{Commands: []string{"true"}},
	}
}

// The rewards of steps are put together as the task says; a verifier without a reward leaves the whole without one.
func TestRegradeOfSteps(t *testing.T) {
	t.Parallel()

	st := openStore(t)
	parts := []rollout.RegradePart{part("one", 1), part("two", 2)}

	regrader := regraderOf(t, st, "mean", parts, new(1.0), new(0.5))
	r, err := regrader.Compose(t.Context())
	require.NoError(t, err)
	require.Equal(t, 0.75, *r.Reward)
	require.Equal(t, 0.5, *r.Steps[1].Reward)

	regrader = regraderOf(t, st, "final", parts, new(1.0), new(0.5))
	regrader.Spec.Strategy = rollout.RewardFinal
	r, err = regrader.Compose(t.Context())
	require.NoError(t, err)
	require.Equal(t, 0.5, *r.Reward)

	regrader = regraderOf(t, st, "none", parts, nil, new(0.5))
	r, err = regrader.Compose(t.Context())
	require.NoError(t, err)
	require.Nil(t, r.Reward)
	require.Equal(t, rollout.NoUsableReward, r.Grading.Status)
}

// A rollout without a grade, because of its verifier, gets one and the outcome of its agent. What a regrade without a
// reward is asked to replace stays.
func TestApplyRegrade(t *testing.T) {
	t.Parallel()

	st, why := openStore(t), "verifier_failed: not found"
	was := rollout.NewResult("r")
	was.Outcome, was.Error, was.Files = rollout.VerifierFailed, &why, map[string]string{"/a": "text"}
	require.NoError(t, st.PutJSON(t.Context(), store.ResultKey("r"), was))

	timedOut := part("", 1)
	timedOut.Outcome = rollout.AgentTimeout

	regrader := regraderOf(t, st, "r", []rollout.RegradePart{timedOut}, nil)
	r, err := regrader.Compose(t.Context())
	require.NoError(t, err)
	_, err = regrader.Apply(t.Context(), &r)
	require.NoError(t, err)
	require.False(t, r.Applied)
	require.NotEmpty(t, r.NotApplied)

	regrader = regraderOf(t, st, "r", []rollout.RegradePart{timedOut}, new(0.0))
	r, err = regrader.Compose(t.Context())
	require.NoError(t, err)

	// the second time is a retry
	for range 2 {
		_, err = regrader.Apply(t.Context(), &r)
		require.NoError(t, err)
	}

	for _, key := range []string{store.ResultKey("r"), store.HeadKey("r")} {
		var now rollout.Result
		require.NoError(t, st.JSON(t.Context(), key, &now))
		require.Equal(t, rollout.AgentTimeout, now.Outcome)
		require.Equal(t, 0.0, *now.Reward)
		require.Nil(t, now.Error)
		require.Equal(t, "now", now.VerifierStdout)
		require.Equal(t, rollout.VerifierFailed, now.Grading.Before.Outcome)
		require.Equal(t, why, now.Grading.Before.Error)
		require.Nil(t, now.Grading.Before.Reward)

		if key == store.ResultKey("r") {
			require.Equal(t, was.Files, now.Files)
		}
	}
}

// Of regrades that are applied at the same time, and of one that ends late, the one that was asked for last stays.
func TestApplyInOrder(t *testing.T) {
	t.Parallel()

	const regrades = 16

	st := openStore(t)
	require.NoError(t, st.PutJSON(t.Context(), store.ResultKey("r"), rollout.NewResult("r")))

	var (
		all     sync.WaitGroup
		records [regrades]rollout.Regrade
	)

	apply := func(n int) {
		regrader := regraderOf(t, st, "r", []rollout.RegradePart{part("", 1)}, new(1.0))
		regrader.Spec.ID = fmt.Sprintf("x%d", n)
		regrader.StartedAt = time.Unix(int64(n), 0)

		records[n] = rollout.Regrade{
			ID: regrader.Spec.ID, RolloutID: "r", StartedAt: regrader.StartedAt, Reward: new(float64(n)),
		}

		if _, err := regrader.Apply(t.Context(), &records[n]); err != nil {
			t.Error(err)
		}
	}

	for n := 1; n < regrades; n++ {
		all.Go(func() { apply(n) })
	}

	all.Wait()
	apply(0)

	for _, key := range []string{store.ResultKey("r"), store.HeadKey("r")} {
		var now rollout.Result
		require.NoError(t, st.JSON(t.Context(), key, &now))
		require.Equal(t, float64(regrades-1), *now.Reward, key)
	}

	require.True(t, records[regrades-1].Applied)
	require.False(t, records[0].Applied)
	require.Equal(t, "regrade x15 was asked for later and is the rollout's grade", records[0].NotApplied)
}

// All members of a group are regraded at the same time: its state has all of their grades.
func TestApplyToMembersAtOnce(t *testing.T) {
	t.Parallel()

	const size = 16

	st, ended := openStore(t), time.Unix(3, 0)
	group := rollout.GroupState{ID: "g", Size: size, Outcome: rollout.GroupFailed, FinishedAt: &ended}

	for n := range size {
		id := rollout.MemberID("g", n, 0)
		group.Members = append(group.Members, rollout.Member{Index: n, RolloutID: id, Outcome: rollout.VerifierFailed})
		was := rollout.NewResult(id)
		was.GroupID, was.Outcome = "g", rollout.VerifierFailed
		require.NoError(t, st.PutJSON(t.Context(), store.ResultKey(id), was))
	}

	require.NoError(t, st.PutJSON(t.Context(), store.GroupKey("g"), group))

	var all sync.WaitGroup

	for n := range size {
		regrader := regraderOf(t, st, rollout.MemberID("g", n, 0), []rollout.RegradePart{part("", 1)}, new(float64(n)))

		all.Go(func() {
			r, err := regrader.Compose(t.Context())
			if err == nil {
				_, err = regrader.Apply(t.Context(), &r)
			}

			if err != nil {
				t.Error(err)
			}
		})
	}

	all.Wait()

	var now rollout.GroupState
	require.NoError(t, st.JSON(t.Context(), store.GroupKey("g"), &now))
	require.Equal(t, rollout.GroupComplete, now.Outcome)

	for n, m := range now.Members {
		require.Equal(t, float64(n), *m.Reward)
	}
}

func openStore(t *testing.T) *store.Store {
	t.Helper()

	st, err := store.Open(t.Context(), t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { _ = st.Close() })

	return st
}
