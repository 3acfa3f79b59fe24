package workflows_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"

	"github.com/rolloutd/rolloutd/activities"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/temporalx/failure"
	"github.com/rolloutd/rolloutd/workflows"
)

// A delivery is retried until its sink is available.
func TestDeliveryWaitsForItsSink(t *testing.T) {
	t.Parallel()

	var suite testsuite.WorkflowTestSuite

	env := suite.NewTestWorkflowEnvironment()
	raiseTimeouts(env)
	env.RegisterWorkflow(workflows.DeliveryWorkflow)
	activities.New(activities.Options{}).RegisterDelivery(env)

	tries := 0

	env.OnActivity("DeliverGroup", mock.Anything, mock.Anything).
		Return(func(_ context.Context, spec rollout.DeliverySpec) (rollout.Delivery, error) {
			if tries++; tries < 9 {
				return rollout.Delivery{}, failure.ToTemporal(fault.New(fault.Unavailable, "away"))
			}

			return rollout.Delivery{Sink: spec.Sink, GroupID: spec.GroupID, State: rollout.DeliveryDelivered}, nil
		})
	env.ExecuteWorkflow(workflows.DeliveryWorkflow, rollout.DeliverySpec{GroupID: "g", Sink: "s"})
	require.NoError(t, env.GetWorkflowError())

	var d rollout.Delivery
	require.NoError(t, env.GetWorkflowResult(&d))
	require.Equal(t, rollout.Delivery{Sink: "s", GroupID: "g", State: rollout.DeliveryDelivered}, d)
	require.Equal(t, 9, tries)
}

func TestDeliveryOfNothing(t *testing.T) {
	t.Parallel()

	for _, spec := range []rollout.DeliverySpec{{}, {GroupID: "g"}, {
		GroupID: "g",
		Sink:    "a/b",
	}, {GroupID: "../g", Sink: "s"}} {
		var suite testsuite.WorkflowTestSuite

		env := suite.NewTestWorkflowEnvironment()
		raiseTimeouts(env)
		env.RegisterWorkflow(workflows.DeliveryWorkflow)
		env.ExecuteWorkflow(workflows.DeliveryWorkflow, spec)
		require.True(t, fault.Is(failure.FromTemporal(env.GetWorkflowError()), fault.Invalid))
	}
}

// Deliveries whose names are the same when joined have workflows of their own.
func TestDeliveryWorkflowID(t *testing.T) {
	t.Parallel()
	require.NotEqual(
		t,
		rollout.DeliveryWorkflowID(rollout.DeliverySpec{Sink: "a-b", GroupID: "c"}),
		rollout.DeliveryWorkflowID(rollout.DeliverySpec{Sink: "a", GroupID: "b-c"}),
	)
}
