package workflows_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/activities"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/temporalx/failure"
)

// update records the result of an update.
type update struct {
	done bool
	err  error
}

func (u *update) Accept()                   {}
func (u *update) Reject(err error)          { u.err = failure.FromTemporal(err) }
func (u *update) Complete(_ any, err error) { u.done, u.err = true, err }

// scoreAt sends a score after the given time on the workflow's clock.
func (w *testEnv) scoreAt(after time.Duration, score float64) *update {
	return w.gradeAt(after, rollout.Score{Score: score})
}

// gradeAt is scoreAt with further rewards.
func (w *testEnv) gradeAt(after time.Duration, s rollout.Score) *update {
	u := &update{}

	w.env.RegisterDelayedCallback(func() { w.env.UpdateWorkflow(rollout.UpdateScore, fmt.Sprint(after, s), u, s) }, after)

	return u
}

// scored returns a rollout that a client grades. Its agent runs for 10 min.
func scored(t *testing.T) (*testEnv, rollout.Spec) {
	t.Helper()
	w, s := newTestEnv(t), spec()
	external(&s)
	s.Limits.Verifier = time.Hour
	w.agentTime, w.holdTime = 10*time.Minute, 2*time.Hour

	return w, s
}

// A client's score ends the wait and is the reward. A score before the wait is refused.
func TestScore(t *testing.T) {
	t.Parallel()
	w, s := scored(t)
	early, first := w.scoreAt(time.Minute, 0.5), w.scoreAt(20*time.Minute, 0.5)
	w.closing = func(context.Context, activities.CloseInput) error {
		require.True(t, first.done)
		return nil
	}
	w.env.RegisterDelayedCallback(func() { require.Equal(t, rollout.PhaseScoring, w.state(t).Phase) }, 19*time.Minute)
	sum := w.run(t, s)
	require.Equal(t, rollout.Completed, sum.Outcome)
	require.NotNil(t, sum.Reward)
	require.InDelta(t, 0.5, *sum.Reward, 0)
	require.NoError(t, first.err)
	require.False(t, early.done)
	require.True(t, fault.Is(early.err, fault.Conflict), early.err)
	require.ErrorContains(t, early.err, "does not wait for a score")
	require.NotContains(t, w.calls, "RunVerifier")
}

// Named rewards and rewards of turns go to the result with the score. Repeated they must be the same.
func TestScoreWithFurtherRewards(t *testing.T) {
	t.Parallel()

	whole := func() rollout.Score {
		return rollout.Score{
			Score: 0.5, Rewards: map[string]float64{"style": 2},
			Turns: []rollout.TurnReward{{Turn: 1, Reward: -1}, {Turn: 3, Name: "tests", Reward: 0.25}},
		}
	}
	w, s := scored(t)
	first, again := w.gradeAt(20*time.Minute, whole()), w.gradeAt(20*time.Minute, whole())
	other := w.gradeAt(20*time.Minute, rollout.Score{Score: 0.5})

	w.run(t, s)
	require.NoError(t, first.err)
	require.NoError(t, again.err)
	require.ErrorContains(t, other.err, "already has the score 0.5, with other rewards")

	head := w.collected[len(w.collected)-1].Head
	require.Equal(t, whole().Rewards, head.Rewards)
	require.Equal(t, whole().Turns, head.TurnRewards)
}

// A score outside the task's range is refused and does not end the wait.
func TestScoreOutOfRange(t *testing.T) {
	t.Parallel()
	w, s := scored(t)
	s.Task.Verifier.RewardRange = []float64{0, 1}
	wrong, right := w.scoreAt(20*time.Minute, 1.5), w.scoreAt(30*time.Minute, 1)
	sum := w.run(t, s)
	require.True(t, fault.Is(wrong.err, fault.Invalid), wrong.err)
	require.NoError(t, right.err)
	require.InDelta(t, 1, *sum.Reward, 0)
}

// Without a score in time there is no reward. The agent's work is kept.
func TestNoScore(t *testing.T) {
	t.Parallel()
	w, s := scored(t)
	sum := w.run(t, s)
	require.Equal(t, rollout.VerifierFailed, sum.Outcome)
	require.Nil(t, sum.Reward)
	require.Contains(t, w.calls, "CollectArtifacts")
	require.Contains(t, sum.Error, "no score came within 1h0m0s")
}

// A rollout whose sandbox is lost before the client has graded it begins another attempt, which awaits a score, too.
func TestLostWhileScoring(t *testing.T) {
	t.Parallel()
	w, s := scored(t)
	w.holdTime = time.Minute

	holds := 0
	w.hold = func(context.Context, activities.HoldInput) error {
		holds++
		return fault.New(fault.SandboxLost, "gone")
	}

	late := w.scoreAt(21*time.Minute+30*time.Second, 0.5)
	sum := w.run(t, s)
	require.NoError(t, late.err)
	require.Equal(t, rollout.Completed, sum.Outcome)
	require.InDelta(t, 0.5, *sum.Reward, 0)
	require.Equal(t, 1, holds, "the second one was scored in time")
	require.Equal(t, 2, w.collected[len(w.collected)-1].Attempt)
}

func TestAbortWhileScoring(t *testing.T) {
	t.Parallel()
	w, s := scored(t)
	w.env.RegisterDelayedCallback(w.abortNow, 20*time.Minute)
	sum := w.run(t, s)
	require.Equal(t, rollout.Aborted, sum.Outcome)
	require.Nil(t, sum.Reward)
}

// An episode whose sandbox is lost gets no further attempt, because its steps cannot be repeated.
func TestEpisodeHasOneAttempt(t *testing.T) {
	t.Parallel()
	w, s := newTestEnv(t), spec()
	interactive(&s)

	agents := 0
	w.agent = func(context.Context, *activities.AgentInput) (*activities.AgentResult, error) {
		agents++
		return nil, fault.New(fault.SandboxLost, "gone")
	}
	sum := w.run(t, s)
	require.Equal(t, rollout.InfraFailed, sum.Outcome)
	require.Nil(t, sum.Reward)
	require.Equal(t, 1, agents)
}
