package rollouts

import (
	"context"
	"errors"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/temporalx/searchattr"
)

// launch describes a workflow to start.
type launch struct {
	id, name, summary string
	labels            temporal.SearchAttributes
	memo              map[string]any
	priority          temporal.Priority
	input             any
}

// startOnce starts a workflow; false: one of that id has been started before.
func (c *Client) startOnce(ctx context.Context, l launch) (bool, error) {
	_, err := c.temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: l.id, TaskQueue: c.queue,
		WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		// Not USE_EXISTING: an error distinguishes an existing workflow, which must be queried, from a new
		// one, whose state is known.
		WorkflowIDConflictPolicy:                 enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
		StaticSummary:                            l.summary,
		TypedSearchAttributes:                    l.labels,
		Memo:                                     l.memo,
		Priority:                                 l.priority,
		// a worker in this process gets the first task with the response
		EnableEagerStart: true,
	}, l.name, l.input)

	var already *serviceerror.WorkflowExecutionAlreadyStarted
	if errors.As(err, &already) {
		return false, nil
	}

	return err == nil, classify(err, "start %s", l.id)
}

// queryTimeout bounds the wait for a worker to answer. A rollout that waits for its first worker cannot
// answer; Temporal's description of it is enough.
const queryTimeout = 10 * time.Second

// query returns the state of a running workflow; false: no worker answers, since the workflow waits for its first one.
func query[T any](ctx context.Context, c *Client, workflowID string) (state T, answered bool, err error) {
	querying, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()

	value, err := c.temporal.QueryWorkflow(querying, workflowID, "", rollout.QueryState)
	if err == nil {
		err = value.Get(&state)
	}

	if err != nil && ctx.Err() == nil && unanswered(querying, err) {
		return state, false, nil
	}

	return state, err == nil, classify(err, "query %s", workflowID)
}

// unanswered reports whether no worker answered the query.
func unanswered(querying context.Context, err error) bool {
	var notReady *serviceerror.WorkflowNotReady
	// the server may time out before us
	var late *serviceerror.DeadlineExceeded
	// nobody has polled the queue for some minutes
	var noPoller *serviceerror.FailedPrecondition

	return querying.Err() != nil || errors.As(err, &notReady) || errors.As(err, &late) || errors.As(err, &noPoller)
}

// owner is the name of the token that submitted the workflow; stored returns it for a workflow that
// Temporal does not have.
func (c *Client) owner(ctx context.Context, workflowID string, stored func() (string, error)) (string, error) {
	d, err := c.temporal.DescribeWorkflowExecution(ctx, workflowID, "")

	var notFound *serviceerror.NotFound
	if errors.As(err, &notFound) {
		return stored()
	}

	return ownerIn(d), classify(err, "look at %s", workflowID)
}

// ofOwner returns the search attribute of the owner, for workflows that set the others themselves.
func ofOwner(name string) temporal.SearchAttributes {
	if name == "" {
		return temporal.SearchAttributes{}
	}

	return temporal.NewSearchAttributes(searchattr.Typed().Owner.ValueSet(searchattr.Keyword(name)))
}

// signal sends a signal; false: no workflow of that id runs.
func (c *Client) signal(ctx context.Context, workflowID, name string, arg any) (bool, error) {
	err := classify(c.temporal.SignalWorkflow(ctx, workflowID, "", name, arg), "signal %s", workflowID)
	if fault.Is(err, fault.NotFound) {
		// Temporal returns the same error for a closed workflow and for none
		return false, nil
	}

	return err == nil, err
}

// list calls each for the workflows of a page that have the filter's labels, and returns the cursor of the
// next page. more is a further term of the query; "": none.
func (c *Client) list(
	ctx context.Context,
	name, more string,
	f rollout.Filter,
	each func(*workflowpb.WorkflowExecutionInfo),
) (next string, err error) {
	if err := f.Validate(); err != nil {
		return "", err
	}

	token, err := tokenOf(f.Cursor)
	if err != nil {
		return "", err
	}

	labels := labelsOf(f)

	got, err := c.temporal.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
		PageSize: int32(f.Limit), NextPageToken: token, Query: queryOf(name, f, labels) + more,
	})
	if err != nil {
		return "", classify(err, "list %s", name)
	}

	for _, w := range got.GetExecutions() {
		if carries(w, labels) {
			each(w)
		}
	}

	return cursorOf(got.GetNextPageToken()), nil
}
