package rollouts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/temporalx/failure"
	"github.com/rolloutd/rolloutd/internal/temporalx/searchattr"
	"github.com/rolloutd/rolloutd/internal/text"
)

// State returns the state of a rollout; fault.NotFound when none has that id.
func (c *Client) State(ctx context.Context, id string) (rollout.State, error) {
	d, err := c.temporal.DescribeWorkflowExecution(ctx, rollout.WorkflowID(id), "")
	s, err := c.state(ctx, id, d, err)
	s.Owner = cmp.Or(ownerIn(d), s.Owner)

	return s, err
}

// Owner is the name of the token that submitted the rollout, "" on a server without tokens; fault.NotFound
// when there is no rollout with that id.
func (c *Client) Owner(ctx context.Context, id string) (string, error) {
	d, err := shared(
		ctx,
		&c.owners,
		id,
		lookTime,
		func(ctx context.Context) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
			return c.temporal.DescribeWorkflowExecution(ctx, rollout.WorkflowID(id), "")
		},
	)

	var notFound *serviceerror.NotFound
	if errors.As(err, &notFound) {
		s, err := c.archived(ctx, id)
		if fault.Is(err, fault.NotFound) {
			s, err = c.announced(ctx, id, err)
		}

		return s.Owner, err
	}

	return ownerIn(d), classify(err, "look at rollout %q", id)
}

func ownerIn(d *workflowservice.DescribeWorkflowExecutionResponse) string {
	return keyword(d.GetWorkflowExecutionInfo().GetSearchAttributes().GetIndexedFields()[searchattr.NameOwner])
}

// state returns the state of a rollout, given Temporal's description of it.
func (c *Client) state(
	ctx context.Context,
	id string,
	d *workflowservice.DescribeWorkflowExecutionResponse,
	err error,
) (rollout.State, error) {
	var notFound *serviceerror.NotFound

	info := d.GetWorkflowExecutionInfo()
	switch status := info.GetStatus(); {
	case errors.As(err, &notFound):
		s, err := c.archived(ctx, id)
		if fault.Is(err, fault.NotFound) {
			return c.announced(ctx, id, err)
		}

		return s, err
	case err != nil:
		return rollout.State{}, classify(err, "look at rollout %q", id)
	case status == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING:
		return c.running(ctx, id, d)
	case status == enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED:
		return c.archived(ctx, id)
	}

	res := c.unfinished(ctx, id, info.GetStatus())
	s, closed := stateOf(res), info.GetCloseTime().AsTime()
	s.StartedAt, s.FinishedAt = info.GetStartTime().AsTime(), &closed

	return s, nil
}

// existing returns the state of a rollout that exists already when it is to be started, from Temporal's
// description alone. Hundreds of clients may repeat their starts at once, and queries would load the one
// worker that can answer them.
func (c *Client) existing(ctx context.Context, id string) (rollout.State, error) {
	d, err := c.temporal.DescribeWorkflowExecution(ctx, rollout.WorkflowID(id), "")
	if err != nil {
		return rollout.State{}, classify(err, "look at rollout %q", id)
	}

	info := d.GetWorkflowExecutionInfo()
	if info.GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return c.State(ctx, id)
	}

	return listed(info), nil
}

// running returns the state of a running rollout; d is Temporal's description of it.
func (c *Client) running(
	ctx context.Context,
	id string,
	d *workflowservice.DescribeWorkflowExecutionResponse,
) (rollout.State, error) {
	s, answered, err := query[rollout.State](ctx, c, rollout.WorkflowID(id))
	if err != nil {
		return s, err
	}

	if !answered {
		if s, err = c.recorded(ctx, id, d.GetWorkflowExecutionInfo()); err != nil {
			return s, err
		}

		s.Waiting = unworked(s)
	}

	if s.Phase == rollout.PhaseQueued && s.Waiting == "" {
		s.Waiting = c.waiting(d.GetPendingActivities())
	}

	if s.Waiting == "" {
		s.Waiting = c.retried(d.GetPendingActivities())
	}

	return s, nil
}

// firstTask is how long a rollout may wait for the worker that begins it before that is worth a word.
const firstTask = 10 * time.Second

// unworked is why a rollout waits for which no worker answers; "": it is not known.
func unworked(s rollout.State) string {
	switch {
	case s.Phase != rollout.PhaseQueued:
		return "no worker answers; the rollout continues when one does"
	case s.AsOf == nil && time.Since(s.StartedAt) > firstTask:
		return "no worker has begun it: none runs, or none of the current build"
	default:
		return ""
	}
}

// maxWaiting bounds the reason of a retry, in characters.
const maxWaiting = 1000

// retried is the last failure of an activity that waits for its retry; "" when there is none. The last failure of a
// running activity is outdated, except that of an installation: a registry that is not reached takes minutes in each try.
func (c *Client) retried(steps []*workflowpb.PendingActivityInfo) string {
	for _, step := range steps {
		waits := step.GetState() == enumspb.PENDING_ACTIVITY_STATE_SCHEDULED && step.GetNextAttemptScheduleTime() != nil
		installs := step.GetState() == enumspb.PENDING_ACTIVITY_STATE_STARTED &&
			step.GetActivityType().GetName() == rollout.ActivityInstall

		if step.GetLastFailure() == nil || !waits && !installs {
			continue
		}

		why := failure.FromTemporal(c.failures.FailureToError(step.GetLastFailure()))

		return text.HeadUTF8(fmt.Sprintf("%s is retried: %v", step.GetActivityType().GetName(), why), maxWaiting)
	}

	return ""
}

// waiting is why a queued rollout waits for its model endpoint; "" when it does not, or the reason is not known.
func (c *Client) waiting(steps []*workflowpb.PendingActivityInfo) string {
	for _, step := range steps {
		// An activity that is scheduled for now waits for a host: its report on the endpoint is outdated.
		scheduled := step.GetState() == enumspb.PENDING_ACTIVITY_STATE_SCHEDULED
		if scheduled && step.GetNextAttemptScheduleTime() == nil {
			continue
		}

		var last rollout.Waiting
		if c.payloads.FromPayloads(step.GetHeartbeatDetails(), &last) == nil && last.Why != "" {
			return last.Why
		}
	}

	return ""
}

// announced is the state of a member of a running group whose workflow has not started yet: the answer to the group's
// start names it. For any other id it returns the error missing.
func (c *Client) announced(ctx context.Context, id string, missing error) (rollout.State, error) {
	groupID, ok := rollout.GroupOfMember(id)
	if !ok {
		return rollout.State{}, missing
	}

	g, err := c.Group(ctx, groupID)
	if fault.Is(err, fault.NotFound) {
		return rollout.State{}, missing
	}

	member := slices.ContainsFunc(g.Members, func(m rollout.Member) bool { return m.RolloutID == id })
	// without members the group waits for its first worker
	if err != nil || g.Done() || !member && len(g.Members) > 0 {
		return rollout.State{}, cmp.Or(err, missing)
	}

	return rollout.State{
		ID:        id,
		TaskID:    g.TaskID,
		GroupID:   g.ID,
		Owner:     g.Owner,
		Phase:     rollout.PhaseQueued,
		StartedAt: g.StartedAt,
	}, nil
}

// archived is the state of a rollout that has ended, from its result.
func (c *Client) archived(ctx context.Context, id string) (rollout.State, error) {
	res, err := c.result(ctx, id)
	if fault.Is(err, fault.NotFound) {
		return rollout.State{}, fault.New(fault.NotFound, "no rollout %q", id)
	}

	if err != nil {
		return rollout.State{}, err
	}

	return stateOf(res), nil
}

// stateOf is the state of a rollout with that result.
func stateOf(res rollout.Result) rollout.State {
	s := rollout.State{
		ID:        res.ID,
		TaskID:    res.TaskID,
		GroupID:   res.GroupID,
		Owner:     res.Owner,
		Phase:     rollout.PhaseDone,
		Attempt:   len(res.Attempts),
		SandboxID: res.SandboxID,
		SessionID: res.SessionID,
		Outcome:   res.Outcome,
		Reward:    res.Reward,
		Phases:    res.Phases,
	}
	if res.Error != nil {
		s.Error = *res.Error
	}

	if n := len(res.Attempts); n > 0 {
		end := res.Attempts[n-1].EndedAt
		s.StartedAt, s.FinishedAt = res.Attempts[0].StartedAt, &end
		s.Turns = res.Attempts[n-1].Turns
	}

	return s
}
