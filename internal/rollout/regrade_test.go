package rollout_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

func regradable() (rollout.Result, rollout.Spec) {
	res := rollout.NewResult("r")
	res.Outcome, res.Reward = rollout.Completed, new(0.0)
	res.Attempts = []rollout.Attempt{{Number: 1, Outcome: rollout.InfraFailed}, {Number: 2, Outcome: rollout.Completed}}

	return res, rollout.Spec{
		Task:   rollout.Task{Verifier: rollout.Verifier{Commands: []string{"true"}}},
		Limits: rollout.Limits{Verifier: time.Minute},
	}
}

// A rollout is graded again in its last attempt, and one that its verifier failed has the outcome of its agent.
func TestNewRegrade(t *testing.T) {
	t.Parallel()

	res, task := regradable()
	spec, err := rollout.NewRegrade(res, task)
	require.NoError(t, err)
	require.Len(t, spec.Parts, 1)
	require.Equal(t, 2, spec.Parts[0].Attempt)
	require.Equal(t, time.Minute, spec.Parts[0].Timeout)
	require.True(t, spec.Parts[0].Untouched)

	other := task
	other.Task.Verifier.Commands = []string{"false"}
	changed, err := rollout.NewRegrade(res, other)
	require.NoError(t, err)
	require.NotEqual(t, spec.Verifier, changed.Verifier)

	res.Outcome, res.Attempts[1].AgentOutcome = rollout.VerifierFailed, rollout.AgentTimeout
	spec, err = rollout.NewRegrade(res, task)
	require.NoError(t, err)
	require.Equal(t, rollout.AgentTimeout, spec.Parts[0].Outcome)
}

// The steps that ran are paired with those of the task by their names. One that the step before kept from beginning
// keeps its 0.
func TestNewRegradeOfSteps(t *testing.T) {
	t.Parallel()

	res, task := regradable()
	verifier := rollout.Task{Verifier: task.Task.Verifier}
	task.Task = rollout.Task{Steps: []rollout.Step{{Name: "new", Task: verifier}, {Name: "b", Task: verifier}, {Name: "a", Task: verifier}}}
	res.Steps = []rollout.StepResult{
		{Name: "a", Attempt: 1, Outcome: rollout.Completed, Reward: new(0.5), Grading: rollout.Grading{Status: rollout.Graded}},
		{Name: "b", Attempt: 2, Outcome: rollout.AgentFailed, Reward: new(0.0), Grading: rollout.Grading{Status: rollout.NotGraded}},
	}

	spec, err := rollout.NewRegrade(res, task)
	require.NoError(t, err)
	require.Len(t, spec.Parts, 2)
	require.True(t, spec.Parts[0].Graded())
	require.False(t, spec.Parts[1].Graded())
	require.Equal(t, 0.0, *spec.Parts[1].Reward)

	res.Steps[0].Name = "gone"
	_, err = rollout.NewRegrade(res, task)
	require.ErrorContains(t, err, "gone")
}

func TestNoRegrade(t *testing.T) {
	t.Parallel()

	for want, c := range map[string]struct {
		change func(*rollout.Result, *rollout.Spec)
		kind   fault.Kind
	}{
		"ended as aborted": {func(r *rollout.Result, _ *rollout.Spec) { r.Outcome = rollout.Aborted }, fault.Conflict},
		"agent's sandbox, which is gone": {
			func(r *rollout.Result, _ *rollout.Spec) { r.Grading.Mode = rollout.GradeShared }, fault.Conflict,
		},
		"graded live": {func(r *rollout.Result, _ *rollout.Spec) { r.Grading.Mode = rollout.GradeLive }, fault.Conflict},
		"no attempt":  {func(r *rollout.Result, _ *rollout.Spec) { r.Attempts = nil }, fault.Conflict},
		"must have a verifier": {
			func(_ *rollout.Result, s *rollout.Spec) { s.Task.Verifier = rollout.Verifier{} }, fault.Invalid,
		},
		"a client grades": {
			func(_ *rollout.Result, s *rollout.Spec) { s.Task.Verifier = rollout.Verifier{External: true} }, fault.Invalid,
		},
		`must not be "live"`: {
			func(_ *rollout.Result, s *rollout.Spec) { s.Task.Verifier.Grade = rollout.GradeLive }, fault.Invalid,
		},
		"must be empty": {
			func(_ *rollout.Result, s *rollout.Spec) { s.Task.Steps = []rollout.Step{{Name: "a", Task: s.Task}} }, fault.Invalid,
		},
	} {
		res, task := regradable()
		c.change(&res, &task)
		_, err := rollout.NewRegrade(res, task)
		require.ErrorContains(t, err, want)
		require.Equal(t, c.kind, fault.KindOf(err), want)
	}
}

func TestOfRegrade(t *testing.T) {
	t.Parallel()

	id, ok := rollout.OfRegrade(rollout.RegradeWorkflowID("a.regrade-b", "c"))
	require.True(t, ok)
	require.Equal(t, "a.regrade-b", id)

	for _, other := range []string{rollout.WorkflowID("a"), "group-a.regrade-b", ""} {
		_, ok := rollout.OfRegrade(other)
		require.False(t, ok, other)
	}
}
