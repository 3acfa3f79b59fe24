package rollouts

import (
	"context"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"github.com/rolloutd/rolloutd/internal/delivery"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Deliver records the delivery of a finished group and starts its workflow, or finds them. A group that
// runs is a fault.Conflict.
func (c *Client) Deliver(ctx context.Context, spec rollout.DeliverySpec) (rollout.Delivery, error) {
	if err := spec.Validate(); err != nil {
		return rollout.Delivery{}, err
	}

	state, err := c.Group(ctx, spec.GroupID)
	if err == nil && !state.Done() {
		err = fault.New(fault.Conflict, "group %s is not done yet (%d of %d members): ask again",
			state.ID, state.Finished(), state.Size)
	}

	if err != nil {
		return rollout.Delivery{}, err
	}
	// the workflow may have ended without a result
	if state, err = groups().stored(ctx, c, spec.GroupID); err != nil {
		return rollout.Delivery{}, err
	}

	d, err := delivery.Outbox{Store: c.store}.Begin(ctx, spec.Sink, delivery.GroupOf(state), time.Now())
	if err != nil || d.Done() {
		return d, err
	}

	_, err = c.temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: rollout.DeliveryWorkflowID(spec), TaskQueue: c.queue,
		WorkflowIDReusePolicy:    enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		StaticSummary:            "group " + spec.GroupID + " to sink " + spec.Sink,
	}, rollout.DeliveryWorkflowName, spec)

	return d, classify(err, "deliver group %q", spec.GroupID)
}

// Delivery returns the delivery of a finished group; fault.NotFound when there is none.
func (c *Client) Delivery(ctx context.Context, spec rollout.DeliverySpec) (rollout.Delivery, error) {
	if err := spec.Validate(); err != nil {
		return rollout.Delivery{}, err
	}

	state, err := groups().stored(ctx, c, spec.GroupID)
	if err != nil {
		return rollout.Delivery{}, err
	}

	d, err := delivery.Outbox{Store: c.store}.Find(ctx, spec.Sink, delivery.GroupOf(state))
	if fault.Is(err, fault.NotFound) {
		err = fault.New(fault.NotFound, "group %q was not delivered to sink %q", spec.GroupID, spec.Sink)
	}

	return d, err
}

// Deliveries lists deliveries sink by sink, oldest group first: those that have not ended, then the others.
func (c *Client) Deliveries(ctx context.Context, f rollout.DeliveryFilter) (rollout.DeliveryPage, error) {
	if err := f.Validate(); err != nil {
		return rollout.DeliveryPage{}, err
	}

	return delivery.Outbox{Store: c.store}.List(ctx, f)
}
