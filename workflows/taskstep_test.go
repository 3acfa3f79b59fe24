package workflows_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/workflow"

	"github.com/rolloutd/rolloutd/activities"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// stepSpec is a task of three steps, each with a verifier. The second is reached with a reward of 0.5.
func stepSpec() rollout.Spec {
	s := spec()
	s.Task = rollout.Task{ID: "task-1", Instruction: "build it"}

	for _, name := range []string{"one", "two", "three"} {
		s.Task.Steps = append(s.Task.Steps, rollout.Step{Name: name, Task: rollout.Task{
			Instruction: "do " + name,
			Verifier:    rollout.Verifier{Script: "grade " + name},
		}})
	}

	s.Task.Steps[0].MinReward = map[string]float64{rollout.RewardName: 0.5}
	s.Task.Steps[1].AgentTimeout = time.Minute

	return s
}

// gradeSteps grades each step by its script.
func (w *testEnv) gradeSteps(rewards map[string]activities.Grade) {
	w.verify = func(_ context.Context, in activities.VerifyInput) (activities.Grade, error) {
		return rewards[in.Verifier.Script], nil
	}
}

// Each step is an attempt of its own that begins in the work of the one before, and ends with a grade.
func TestSteps(t *testing.T) {
	t.Parallel()

	w := newTestEnv(t)
	w.gradeSteps(map[string]activities.Grade{"grade one": {Reward: 0.5}, "grade two": {Reward: 1}})

	var agents []activities.AgentInput

	w.agent = func(_ context.Context, in *activities.AgentInput) (*activities.AgentResult, error) {
		agents = append(agents, *in)
		return &activities.AgentResult{Outcome: rollout.Completed, Turns: 2}, nil
	}

	var froms []int

	w.prepare = func(_ context.Context, in activities.SetupInput) error {
		froms = append(froms, in.From)
		return nil
	}

	sum := w.run(t, stepSpec())
	require.Equal(t, rollout.Completed, sum.Outcome)
	require.Equal(t, 0.5, *sum.Reward, "the mean of 0.5, 1 and 0")

	require.Len(t, agents, 3)
	require.Equal(t, "do two", agents[1].Instruction)
	require.Equal(t, 1, agents[1].Step)
	require.Equal(t, time.Minute, agents[1].Limits.Agent)
	require.Less(t, agents[1].Limits.Call, time.Minute, "a limit of the rollout is cut to fit")
	require.Equal(t, []int{1, 2}, froms, "the work of the step before is restored, also without a setup")
	require.Equal(t, []string{
		"CreateSandbox", "RunSetup", "InstallOpencode", "StartProxy",
		"RunAgent", "RunVerifier", "CollectArtifacts", "CloseSandbox",
	}, w.calls[len(w.calls)-8:], "the work is restored before the agent is installed")

	require.Len(t, w.collected, 3)
	require.True(t, w.collected[0].Continues)
	require.False(t, w.collected[0].Final)
	require.Equal(t, 2, w.collected[2].From)
	require.False(t, w.collected[2].Continues)
	require.True(t, w.collected[2].Final)

	head := w.collected[2].Head
	require.Equal(t, 0.5, *head.Reward)
	require.Len(t, head.Steps, 3)
	require.Equal(t, "two", head.Steps[1].Name)
	require.Equal(t, 2, head.Steps[1].Attempt)
	require.Equal(t, 1.0, *head.Steps[1].Reward)
	require.Equal(t, "three", head.Attempts[2].Step)
}

func spendsBudget(context.Context, *activities.AgentInput) (*activities.AgentResult, error) {
	return &activities.AgentResult{Outcome: rollout.BudgetExhausted}, nil
}

// How a task with steps ends, by the grades of its steps.
func TestEndsOfSteps(t *testing.T) {
	t.Parallel()

	full := map[string]activities.Grade{"grade one": {Reward: 1}, "grade two": {Reward: 1}, "grade three": {Reward: 1}}

	for name, c := range map[string]struct {
		change  func(s *rollout.Spec, w *testEnv)
		outcome rollout.Outcome
		reward  *float64
		ran     int
	}{
		"full": {func(*rollout.Spec, *testEnv) {}, rollout.Completed, new(1.0), 3},
		"the reward of the first step does not suffice": {func(_ *rollout.Spec, w *testEnv) {
			w.gradeSteps(map[string]activities.Grade{"grade one": {Reward: 0.4}})
		}, rollout.Completed, new(0.4), 1},
		"a reward by name is missing": {func(s *rollout.Spec, _ *testEnv) {
			s.Task.Steps[0].MinReward = map[string]float64{"quality": 0}
		}, rollout.Completed, new(1.0), 1},
		"a reward by name suffices": {func(s *rollout.Spec, w *testEnv) {
			s.Task.Steps[0].MinReward = map[string]float64{"quality": 2}

			w.gradeSteps(map[string]activities.Grade{"grade one": {Reward: 0, Rewards: map[string]float64{"quality": 2}}})
		}, rollout.Completed, new(0.0), 3},
		"the reward of the last step": {func(s *rollout.Spec, w *testEnv) {
			s.Task.RewardStrategy = rollout.RewardFinal

			w.gradeSteps(map[string]activities.Grade{"grade one": {Reward: 0.5}, "grade three": {Reward: 0.25}})
		}, rollout.Completed, new(0.25), 3},
		"an agent that fails in a step goes on": {func(_ *rollout.Spec, w *testEnv) {
			w.agent = func(_ context.Context, in *activities.AgentInput) (*activities.AgentResult, error) {
				if in.Step == 1 {
					return &activities.AgentResult{Outcome: rollout.AgentTimeout}, nil
				}

				return &activities.AgentResult{Outcome: rollout.Completed}, nil
			}
		}, rollout.Completed, new(1.0), 3},
		"a spent budget ends no further step": {func(_ *rollout.Spec, w *testEnv) {
			w.agent = spendsBudget
			w.gradeSteps(map[string]activities.Grade{"grade one": {Reward: 1}})
		}, rollout.BudgetExhausted, new(1.0 / 3), 3},
		"a spent budget ends a run of an earlier build": {func(_ *rollout.Spec, w *testEnv) {
			w.agent = spendsBudget
			w.env.OnGetVersion("next-step-without-budget", workflow.DefaultVersion, workflow.Version(1)).Return(workflow.DefaultVersion)
		}, rollout.BudgetExhausted, new(1.0), 1},
		"what an agent leaves cannot end the task without a reward": {func(_ *rollout.Spec, w *testEnv) {
			w.prepare = func(_ context.Context, in activities.SetupInput) error {
				if in.From > 0 {
					return fault.New(fault.SetupFailed, "setup command 1 of 1")
				}

				return nil
			}
		}, rollout.AgentFailed, new(0.5), 2},
		"a failed setup of the first step is the task's": {func(s *rollout.Spec, w *testEnv) {
			s.Task.Steps[0].Task.Setup = []string{"false"}
			w.prepare = func(context.Context, activities.SetupInput) error {
				return fault.New(fault.SetupFailed, "setup command 1 of 1")
			}
		}, rollout.SetupFailed, nil, 1},
		"a failed verifier of a later step": {func(_ *rollout.Spec, w *testEnv) {
			w.verify = func(_ context.Context, in activities.VerifyInput) (activities.Grade, error) {
				if in.Attempt == 2 {
					return activities.Grade{}, fault.New(fault.VerifierFailed, "no reward")
				}

				return activities.Grade{Reward: 1}, nil
			}
		}, rollout.VerifierFailed, nil, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			w, s := newTestEnv(t), stepSpec()
			w.gradeSteps(full)
			c.change(&s, w)

			sum := w.run(t, s)
			require.Equal(t, c.outcome, sum.Outcome, sum.Error)
			require.Equal(t, c.reward, sum.Reward)
			require.Len(t, w.collected, c.ran)
			require.True(t, w.collected[c.ran-1].Final)
			require.Len(t, w.collected[c.ran-1].Head.Steps, c.ran)
		})
	}
}

// A step that the infrastructure loses is repeated from the work of the step before, with the step's own number of
// attempts.
func TestStepIsRepeated(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		losses   int
		outcome  rollout.Outcome
		attempts int
	}{
		"then success": {2, rollout.Completed, 5},
		"up to bound":  {9, rollout.InfraFailed, 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			w, left := newTestEnv(t), c.losses

			var limits []int

			w.agent = func(_ context.Context, in *activities.AgentInput) (*activities.AgentResult, error) {
				limits = append(limits, in.Limits.Attempts)
				if left--; in.Step == 1 && left >= 0 {
					return nil, fault.New(fault.SandboxLost, "sandbox %s is gone", in.SandboxID())
				}

				left++

				return &activities.AgentResult{Outcome: rollout.Completed}, nil
			}

			s := stepSpec()
			sum := w.run(t, s)
			require.Equal(t, c.outcome, sum.Outcome)
			require.Equal(t, c.outcome == rollout.Completed, sum.Reward != nil)
			require.Len(t, w.collected, c.attempts)

			for _, in := range w.collected[1:4] {
				require.Equal(t, 1, in.From)
				require.Equal(t, "two", in.Head.Attempts[len(in.Head.Attempts)-1].Step)
			}

			require.Equal(t, []int{3, 4, 4, 4}, limits[:4], "the last attempt of the step")
		})
	}
}

// An abort between two steps ends the rollout.
func TestAbortBetweenSteps(t *testing.T) {
	t.Parallel()

	w := newTestEnv(t)
	w.closing = func(context.Context, activities.CloseInput) error {
		w.abortNow()
		return nil
	}

	sum := w.run(t, stepSpec())
	require.Equal(t, rollout.Aborted, sum.Outcome)
	require.Nil(t, sum.Reward)
	require.Len(t, w.collected, 1)
	require.Len(t, w.composed, 1)
	require.Len(t, w.composed[0].Head.Steps, 1)
}
