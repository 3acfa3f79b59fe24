package rollouts

import (
	"context"
	"errors"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// resource is a kind of workflow beside rollouts, with an input I, whose last state S is in the store:
// groups, producers.
type resource[I, S any] struct {
	// name in messages
	name       string
	workflowID func(id string) string

	// key of its state in the store
	key func(id string) string

	// bytes of its state
	most   int64
	listed func(*workflowpb.WorkflowExecutionInfo) S

	// the state with which a workflow begins that is started at a time
	first func(I, time.Time) S

	// marks a resource whose workflow ended without a state
	fail  func(s *S, reason string)
	owner func(S) string
}

// state returns the state of a resource; fault.NotFound when none has that id.
func (r resource[I, S]) state(ctx context.Context, c *Client, id string) (none S, err error) {
	d, err := c.temporal.DescribeWorkflowExecution(ctx, r.workflowID(id), "")

	var notFound *serviceerror.NotFound

	info := d.GetWorkflowExecutionInfo()
	switch status := info.GetStatus(); {
	case errors.As(err, &notFound), err == nil && status == enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED:
		return r.stored(ctx, c, id)
	case err != nil:
		return none, classify(err, "look at %s %q", r.name, id)
	case status == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING,
		status == enumspb.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW:
		return r.running(ctx, c, id, info)
	}

	s := r.listed(info)
	r.fail(&s, "the workflow ended as "+info.GetStatus().String())

	return s, nil
}

// running returns the state of a running resource; fault.Unavailable if it has begun and no worker answers.
// For one that waits for its first worker it returns the state with which it will begin.
func (r resource[I, S]) running(
	ctx context.Context,
	c *Client,
	id string,
	info *workflowpb.WorkflowExecutionInfo,
) (none S, err error) {
	s, answered, err := query[S](ctx, c, r.workflowID(id))
	if err != nil || answered {
		return s, err
	}

	input, started, err := c.inputBeforeStart(ctx, r.workflowID(id))
	switch {
	case err != nil:
		return none, err
	case started:
		return none, fault.New(fault.Unavailable, "no worker answers for %s %q: its state is not known until one does",
			r.name, id)
	}

	var in I
	if err := c.payloads.FromPayloads(input, &in); err != nil {
		return none, fault.Wrap(fault.Internal, err, "input of %s %q", r.name, id)
	}

	return r.first(in, info.GetStartTime().AsTime()), nil
}

// stored returns the stored state of a resource that has ended.
func (r resource[I, S]) stored(ctx context.Context, c *Client, id string) (s S, err error) {
	err = c.readJSON(ctx, r.key(id), r.most, &s)
	if fault.Is(err, fault.NotFound) {
		return s, fault.New(fault.NotFound, "no %s %q", r.name, id)
	}

	return s, err
}

// ownerOf is the name of the token that submitted the resource; fault.NotFound when none has that id.
func (r resource[I, S]) ownerOf(ctx context.Context, c *Client, id string) (string, error) {
	return c.owner(ctx, r.workflowID(id), func() (string, error) {
		s, err := r.stored(ctx, c, id)
		return r.owner(s), err
	})
}

// signal sends a signal. false: the resource had ended before; fault.NotFound when none has that id.
func (r resource[I, S]) signal(ctx context.Context, c *Client, id, name string, arg any) (bool, error) {
	sent, err := c.signal(ctx, r.workflowID(id), name, arg)
	if err == nil && !sent {
		_, err = r.state(ctx, c, id)
	}

	return sent, err
}
