package rollouts

import (
	"context"
	"errors"
	"slices"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"

	"github.com/rolloutd/rolloutd/internal/clock"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/store"
)

// maxRegrade bounds the record of a regrade, in bytes; the output of the verifier's commands is the largest part.
const maxRegrade = 64 << 20

// Regrade starts another grade of the saved work of a finished rollout, by the verifier of a task as it is now, or
// finds the one with that id. The error is a fault.Conflict that says why if the rollout cannot be graded again.
func (c *Client) Regrade(ctx context.Context, id string, req rollout.RegradeRequest) (rollout.Regrade, error) {
	if err := rollout.CheckRegradeID(req.ID); err != nil {
		return rollout.Regrade{}, err
	}

	if r, err := c.RegradeState(ctx, id, req.ID); !fault.Is(err, fault.NotFound) {
		return r, err
	}

	spec, err := c.regradeSpec(ctx, id, req)
	if err != nil {
		return rollout.Regrade{}, err
	}

	if err := c.store.Full(ctx); err != nil {
		return rollout.Regrade{}, err
	}

	started, err := c.startOnce(ctx, launch{
		id:       rollout.RegradeWorkflowID(id, spec.ID),
		name:     rollout.RegradeWorkflowName,
		summary:  "regrade of " + id,
		labels:   ofOwner(spec.Owner),
		priority: priorityOf(spec.Owner, ""),
		input:    spec,
	})
	if err == nil && !started {
		return c.RegradeState(ctx, id, spec.ID)
	}

	return rollout.Regrade{ID: spec.ID, RolloutID: id, StartedAt: time.Now().UTC(), Verifier: spec.Verifier}, err
}

// regradeSpec describes the regrade of a rollout that has ended and whose work is in the store.
func (c *Client) regradeSpec(ctx context.Context, id string, req rollout.RegradeRequest) (rollout.RegradeSpec, error) {
	state, err := c.State(ctx, id)
	if err == nil && !state.Done() {
		err = fault.New(fault.Conflict, "rollout %s is not done yet (%s)", id, state.Phase)
	}

	if err != nil {
		return rollout.RegradeSpec{}, err
	}

	res, err := c.Wait(ctx, id)
	if err != nil {
		return rollout.RegradeSpec{}, err
	}

	now, err := c.byReference(ctx, req.Task)
	if err != nil {
		return rollout.RegradeSpec{}, err
	}

	spec, err := rollout.NewRegrade(res, now)
	if err != nil {
		return spec, err
	}

	spec.ID, spec.Apply = req.ID, req.Apply

	if req.Apply {
		if err := c.checkGroupDone(ctx, res); err != nil {
			return spec, err
		}
	}

	return spec, c.checkSaved(ctx, spec)
}

// checkSaved refuses a rollout whose work is not in the store.
func (c *Client) checkSaved(ctx context.Context, spec rollout.RegradeSpec) error {
	for _, part := range spec.Parts {
		if !part.Graded() {
			continue
		}

		name := store.Home
		if part.Verifier.Image != "" {
			name = store.Artifacts
		}

		saved, err := c.store.Exists(ctx, store.AttemptKey(spec.RolloutID, part.Attempt, name))
		if err != nil {
			return err
		}

		if !saved {
			return fault.New(fault.Conflict,
				"rollout %s cannot be graded again: attempt %d has no saved work (%s): it could not be packed, or was not kept",
				spec.RolloutID, part.Attempt, name)
		}
	}

	return nil
}

// checkGroupDone refuses to change the reward of a member of a running group, which keeps its own record of it.
func (c *Client) checkGroupDone(ctx context.Context, res rollout.Result) error {
	group, ok := rollout.GroupOfMember(res.ID)
	if !ok || group != res.GroupID {
		return nil
	}

	g, err := c.Group(ctx, group)
	if err == nil && !g.Done() {
		return fault.New(fault.Conflict, "group %s is not done yet: apply a regrade to rollout %s afterwards", group, res.ID)
	}

	return fault.Ignore(err, fault.NotFound)
}

// RegradeState returns a regrade; fault.NotFound when the rollout has none with that id.
func (c *Client) RegradeState(ctx context.Context, id, regradeID string) (rollout.Regrade, error) {
	var r rollout.Regrade

	err := c.readJSON(ctx, store.RegradeKey(id, regradeID), maxRegrade, &r)
	if !fault.Is(err, fault.NotFound) {
		return r, err
	}

	d, err := c.temporal.DescribeWorkflowExecution(ctx, rollout.RegradeWorkflowID(id, regradeID), "")

	var notFound *serviceerror.NotFound
	if errors.As(err, &notFound) {
		return r, fault.New(fault.NotFound, "rollout %q has no regrade %q", id, regradeID)
	}

	if err != nil {
		return r, classify(err, "look at regrade %q of rollout %q", regradeID, id)
	}

	info := d.GetWorkflowExecutionInfo()
	r = rollout.Regrade{ID: regradeID, RolloutID: id, StartedAt: info.GetStartTime().AsTime()}

	switch info.GetStatus() {
	case enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING:
		return r, nil
	case enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED:
		// it has ended since the first look
		return r, c.readJSON(ctx, store.RegradeKey(id, regradeID), maxRegrade, &r)
	}

	at := info.GetCloseTime().AsTime()
	r.FinishedAt, r.Error = &at, "the workflow ended as "+info.GetStatus().String()
	r.Grading.Status = rollout.NotGraded

	return r, nil
}

// WaitRegrade returns a regrade once it has ended, or as it is when ctx ends.
func (c *Client) WaitRegrade(ctx context.Context, id, regradeID string) (rollout.Regrade, error) {
	for started := time.Now(); ; {
		r, err := c.lastRegradeState(ctx, id, regradeID)
		if err != nil || r.Done() || ctx.Err() != nil {
			return r, err
		}

		slice, cancel := context.WithTimeout(ctx, pollTime(time.Since(started)))
		if err := c.untilClosed(slice, rollout.RegradeWorkflowID(id, regradeID)); err != nil && slice.Err() == nil {
			// the workflow failed, or Temporal does not answer: do not poll at once
			_ = clock.Sleep(slice, time.Second)
		}

		cancel()
	}
}

// lastStateTimeout bounds the look at a regrade for a client that may have left.
const lastStateTimeout = time.Minute

// lastRegradeState returns the state of a regrade also after ctx has ended.
func (c *Client) lastRegradeState(ctx context.Context, id, regradeID string) (rollout.Regrade, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastStateTimeout)
	defer cancel()

	return c.RegradeState(ctx, id, regradeID)
}

// Regrades returns the regrades of a rollout that have ended, oldest first.
func (c *Client) Regrades(ctx context.Context, id string) (rollout.Regrades, error) {
	all := rollout.Regrades{Regrades: []rollout.Regrade{}}

	for key, err := range c.store.Keys(ctx, store.RegradeKey(id, "")) {
		if err != nil {
			return all, err
		}

		var r rollout.Regrade
		if err := c.readJSON(ctx, key, maxRegrade, &r); err != nil {
			return all, err
		}

		all.Regrades = append(all.Regrades, r)
	}

	slices.SortFunc(all.Regrades, func(a, b rollout.Regrade) int { return a.StartedAt.Compare(b.StartedAt) })

	return all, nil
}
