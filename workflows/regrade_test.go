package workflows_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"

	"github.com/rolloutd/rolloutd/activities"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/temporalx/failure"
	"github.com/rolloutd/rolloutd/workflows"
)

// A regrade grades the steps that ran and have a verifier, in their order, and always leaves a record.
func TestRegrade(t *testing.T) {
	t.Parallel()

	verifier := rollout.Verifier{Commands: []string{"true"}}

	for name, c := range map[string]struct {
		parts []rollout.RegradePart
		fails error

		graded []int
		failed string
	}{
		"a task": {[]rollout.RegradePart{{Attempt: 2, Verifier: verifier}}, nil, []int{2}, ""},
		"steps": {[]rollout.RegradePart{
			{Step: "one", Attempt: 1, Verifier: verifier}, {Step: "two", Attempt: 2}, {Step: "prevented", Verifier: verifier},
			{Step: "four", Attempt: 4, Verifier: verifier},
		}, nil, []int{1, 4}, ""},
		"no image": {
			[]rollout.RegradePart{{Attempt: 1, Verifier: verifier}, {Attempt: 2, Verifier: verifier}},
			fault.New(fault.Invalid, "no such image"), []int{1}, "no such image",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			var suite testsuite.WorkflowTestSuite
			suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
			env := suite.NewTestWorkflowEnvironment()
			raiseTimeouts(env)
			env.RegisterWorkflow(workflows.RegradeWorkflow)

			acts := activities.New(activities.Options{})
			acts.RegisterCreate(env)
			acts.RegisterLocal(env)

			var (
				graded []int
				stored activities.StoreRegradeInput
			)

			env.OnActivity("Regrade", mock.Anything, mock.Anything).Return(
				func(_ context.Context, in activities.RegradeInput) error {
					require.Equal(t, "abc", in.Regrade)
					graded = append(graded, in.Attempt)

					return failure.ToTemporal(c.fails)
				})
			env.OnActivity("StoreRegrade", mock.Anything, mock.Anything).Return(
				func(_ context.Context, in activities.StoreRegradeInput) (rollout.Summary, error) {
					stored = in
					return rollout.Summary{ID: in.Spec.RolloutID}, nil
				})

			env.ExecuteWorkflow(workflows.RegradeWorkflow, rollout.RegradeSpec{
				ID: "abc", RolloutID: "r", Parts: c.parts, Queue: time.Hour,
			})
			require.NoError(t, env.GetWorkflowError())
			require.Equal(t, c.graded, graded)
			require.Equal(t, c.failed, stored.Error)
		})
	}
}
