package workflows_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/rolloutd/rolloutd/activities"
	"github.com/rolloutd/rolloutd/internal/agent/supervisor"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/temporalx/failure"
	"github.com/rolloutd/rolloutd/internal/temporalx/searchattr"
	"github.com/rolloutd/rolloutd/workflows"
)

func TestHappyPath(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	sum := w.run(t, spec())
	require.Equal(t, happy, w.calls)
	require.Equal(t, rollout.Completed, sum.Outcome)
	require.Equal(t, 1.0, *sum.Reward)
	require.Equal(t, "rollouts/r1/result.json", sum.Result.Key)

	s := w.state(t)
	require.True(t, s.Done())
	require.Equal(t, 3, s.Turns)
	require.Equal(t, "ses", s.SessionID)
	require.Equal(t, "r1.1", s.SandboxID)
	require.NotNil(t, s.FinishedAt)
	require.Equal(t, []rollout.Phase{
		rollout.PhaseQueued, rollout.PhaseCreating, rollout.PhaseInstalling, rollout.PhaseProxy, rollout.PhaseSetup,
		rollout.PhaseAgent, rollout.PhaseVerifying, rollout.PhaseCollecting, rollout.PhaseClosing,
	}, phases(s))

	for _, p := range s.Phases {
		require.NotNil(t, p.End, p.Phase)
	}

	head := w.collected[0].Head
	require.True(t, w.collected[0].Final)
	require.Equal(t, "opencode 1", head.InstallLog)
	require.Equal(t, []rollout.Attempt{{
		Number: 1, SandboxID: "r1.1", Host: "h1", Outcome: rollout.Completed, Turns: 3,
		StartedAt: head.Attempts[0].StartedAt, EndedAt: head.Attempts[0].EndedAt,
	}}, head.Attempts)
}

// changePlace changes the place that CreateSandbox returns.
func (w *testEnv) changePlace(change func(*activities.Place)) {
	made := w.create
	w.create = func(ctx context.Context, in activities.CreateSandboxInput) (activities.Place, error) {
		place, err := made(ctx, in)
		change(&place)

		return place, err
	}
}

// The host reports that its agent needs no installation. A host of an older build does not report it.
func TestAgentWithoutInstallation(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	w.changePlace(func(p *activities.Place) { p.NoInstall = true })
	sum := w.run(t, spec())
	require.Equal(t, rollout.Completed, sum.Outcome)
	require.Equal(
		t,
		slices.DeleteFunc(slices.Clone(happy), func(name string) bool { return name == "InstallOpencode" }),
		w.calls,
	)
	require.NotContains(t, phases(w.state(t)), rollout.PhaseInstalling)
}

// The host reports that RunAgent opens the route. The recorded calls are still collected.
func TestAgentThatNeedsNoChannel(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	w.changePlace(func(p *activities.Place) { p.NoProxy = true })
	sum := w.run(t, spec())
	require.Equal(t, rollout.Completed, sum.Outcome)
	require.Equal(
		t,
		slices.DeleteFunc(slices.Clone(happy), func(name string) bool { return name == "StartProxy" }),
		w.calls,
	)
	require.NotContains(t, phases(w.state(t)), rollout.PhaseProxy)
	require.True(t, w.collected[0].Proxied)
}

// Before RunAgent there is no route, so no trace is collected.
func TestNoRouteBeforeTheAgent(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	w.changePlace(func(p *activities.Place) { p.NoProxy = true })
	w.prepare = fail(9, fault.SetupFailed, w.prepare)
	sum := w.run(t, spec())
	require.Equal(t, rollout.SetupFailed, sum.Outcome)
	require.False(t, w.collected[0].Proxied)
}

func phases(s rollout.State) []rollout.Phase {
	var out []rollout.Phase
	for _, p := range s.Phases {
		out = append(out, p.Phase)
	}

	return out
}

// Temporal's list finds rollouts by task, phase, outcome and other attributes.
func TestSearchAttributes(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	keys, seen := searchattr.Typed(), map[string]any{}

	w.env.OnUpsertTypedSearchAttributes(mock.Anything).Run(func(args mock.Arguments) {
		attrs := args.Get(0).(temporal.SearchAttributes)
		for key, value := range attrs.GetUntypedValues() {
			seen[key.GetName()] = value
		}
	}).Return(nil)

	s := spec()
	// PostgreSQL cannot store this character
	s.Task.ID += "\x00"
	w.run(t, s)
	require.Equal(t, map[string]any{
		keys.Task.GetName():    "task-1",
		keys.Group.GetName():   "g1",
		keys.Model.GetName():   "m",
		keys.Phase.GetName():   "done",
		keys.Outcome.GetName(): "completed",
		keys.Reward.GetName():  1.0,
		keys.Sandbox.GetName(): "r1.1",
		keys.Numbers.GetName(): `{"attempts":1,"turns":3,"calls":0,"prompt_tokens":0,"completion_tokens":0}`,
	}, seen)
}

// A rollout that was started with its attributes does not set them again.
func TestAttributesFromTheStart(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	s, keys := spec(), searchattr.Typed()
	require.NoError(t, w.env.SetTypedSearchAttributesOnStart(temporal.NewSearchAttributes(keys.AtStart(s)...)))

	var seen []string

	w.env.OnUpsertTypedSearchAttributes(mock.Anything).Run(func(args mock.Arguments) {
		attrs := args.Get(0).(temporal.SearchAttributes)
		phase, _ := attrs.GetKeyword(keys.Phase)
		seen = append(seen, phase)

		require.False(t, attrs.ContainsKey(keys.Model))
	}).Return(nil)
	w.run(t, s)
	require.Equal(
		t,
		[]string{
			"installing_agent",
			"starting_proxy",
			"setup",
			"running_agent",
			"verifying",
			"collecting",
			"closing_sandbox",
			"done",
		},
		seen,
	)
}

func TestStepsAreLeftOutWhereTheTaskHasNone(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	s := spec()
	s.Task.Setup, s.Task.Verifier = nil, rollout.Verifier{}
	sum := w.run(t, s)
	require.Equal(
		t,
		[]string{"CreateSandbox", "InstallOpencode", "StartProxy", "RunAgent", "CollectArtifacts", "CloseSandbox"},
		w.calls,
	)
	require.Equal(t, rollout.Completed, sum.Outcome)
	require.Nil(t, sum.Reward)
}

func TestInvalidSpecFailsTheWorkflow(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	s := spec()
	s.Task.Instruction = ""
	w.env.ExecuteWorkflow(workflows.RolloutWorkflow, s)
	err := failure.FromTemporal(w.env.GetWorkflowError())
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	require.Empty(t, w.calls)
}

// After any outcome of the agent, the attempt is collected and closed. Only outcomes that may carry a reward have one.
func TestOutcomesOfTheAgent(t *testing.T) {
	t.Parallel()

	for _, outcome := range []rollout.Outcome{rollout.Completed, rollout.AgentFailed, rollout.AgentTimeout, rollout.BudgetExhausted, rollout.Aborted} {
		t.Run(string(outcome), func(t *testing.T) {
			t.Parallel()
			w := newTestEnv(t)
			w.agent = func(context.Context, *activities.AgentInput) (*activities.AgentResult, error) {
				return &activities.AgentResult{Outcome: outcome, ExitCode: 7, Error: "why"}, nil
			}
			sum := w.run(t, spec())
			require.Equal(t, outcome, sum.Outcome)
			require.Equal(t, outcome.MayCarryReward(), sum.Reward != nil)
			require.Equal(t, 7, w.collected[0].Head.ExitCode)
			require.Equal(t, "why", w.collected[0].Head.Error)
			require.Equal(t, []string{"CollectArtifacts", "CloseSandbox"}, w.calls[len(w.calls)-2:])
		})
	}
}

func TestSetupFails(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	w.prepare = fail(9, fault.SetupFailed, w.prepare)
	sum := w.run(t, spec())
	require.Equal(t, rollout.SetupFailed, sum.Outcome)
	require.Nil(t, sum.Reward)
	require.Contains(t, sum.Error, "broken")
	require.Equal(
		t,
		[]string{"CreateSandbox", "InstallOpencode", "StartProxy", "RunSetup", "CollectArtifacts", "CloseSandbox"},
		w.calls,
	)
	require.Equal(t, -1, w.collected[0].Head.ExitCode)
}

func TestVerifierFails(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)
	w.verify = func(context.Context, activities.VerifyInput) (activities.Grade, error) {
		return activities.Grade{}, fault.New(fault.VerifierFailed, "nan")
	}
	sum := w.run(t, spec())
	require.Equal(t, rollout.VerifierFailed, sum.Outcome)
	require.Nil(t, sum.Reward)
	require.Equal(t, happy, w.calls, "one attempt: grading again would not change the grade")
}

// RunAgent ends by its own time limits. Its deadline exceeds their sum.
func TestDeadlineOfTheAgent(t *testing.T) {
	t.Parallel()

	for _, limits := range []rollout.Limits{
		rollout.DefaultLimits(),
		{Agent: 2 * time.Hour, Call: time.Hour, Rollout: 24 * time.Hour},
		{Agent: 10 * time.Second, Call: time.Second},
	} {
		w := newTestEnv(t)

		var took time.Duration

		w.agent = func(ctx context.Context, in *activities.AgentInput) (*activities.AgentResult, error) {
			info := activity.GetInfo(ctx)
			took = info.Deadline.Sub(info.StartedTime)

			return &activities.AgentResult{Outcome: rollout.Completed}, nil
		}
		s := spec()
		s.Limits = limits
		w.run(t, s)
		require.GreaterOrEqual(t, took, supervisor.MaxTime(limits.Filled()))
	}
}

// RunVerifier also saves and restores the workspace, and may run twice. Its deadline therefore exceeds the
// verifier's time limit.
func TestDeadlineOfTheVerifier(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t)

	var took time.Duration

	w.verify = func(ctx context.Context, _ activities.VerifyInput) (activities.Grade, error) {
		info := activity.GetInfo(ctx)
		took = info.Deadline.Sub(info.StartedTime)

		return activities.Grade{Reward: 1}, nil
	}
	s := spec()
	w.run(t, s)
	require.GreaterOrEqual(t, took, s.Limits.Verifier+10*time.Minute)
}

// Only the oracle agent gets the solution.
func TestSolutionGoesToTheOracleOnly(t *testing.T) {
	t.Parallel()

	for agent, want := range map[string][]string{
		rollout.AgentOracle:   {"solve"},
		rollout.AgentOpencode: nil,
		rollout.AgentNop:      nil,
	} {
		w := newTestEnv(t)

		var got *activities.AgentInput

		ends := w.agent
		w.agent = func(ctx context.Context, in *activities.AgentInput) (*activities.AgentResult, error) {
			got = in
			return ends(ctx, in)
		}
		s := spec()
		s.Agent, s.Task.Solution = agent, []string{"solve"}
		w.run(t, s)
		require.Equal(t, want, got.Solution, agent)
	}
}
