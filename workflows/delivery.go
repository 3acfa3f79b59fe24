package workflows

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/rolloutd/rolloutd/activities"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/temporalx/failure"
)

// deliverTry bounds one try to deliver a group. A sink whose trainer hangs is retried.
const deliverTry = 5 * time.Minute

// DeliveryWorkflow delivers one finished group to one sink, however long the sink is unavailable, and
// returns the result.
func DeliveryWorkflow(ctx workflow.Context, spec rollout.DeliverySpec) (rollout.Delivery, error) {
	if err := spec.Validate(); err != nil {
		return rollout.Delivery{}, failure.ToTemporal(err)
	}

	return deliverGroup(ctx, spec)
}

// deliverGroup runs the activity DeliverGroup until the delivery has ended.
func deliverGroup(ctx workflow.Context, spec rollout.DeliverySpec) (rollout.Delivery, error) {
	// acts stays nil: it only names the methods.
	var acts *activities.Activities

	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:           rollout.DeliveryQueue,
		StartToCloseTimeout: deliverTry,
		HeartbeatTimeout:    heartbeat,
		Summary:             spec.GroupID + " to " + spec.Sink,
		RetryPolicy:         &temporal.RetryPolicy{MaximumInterval: time.Minute},
	})

	var out rollout.Delivery

	err := workflow.ExecuteActivity(ctx, acts.DeliverGroup, spec).Get(ctx, &out)

	return out, err
}
