package rollouts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/store"
	"github.com/rolloutd/rolloutd/internal/temporalx/searchattr"
)

// maxProducer bounds the stored state of a producer, in bytes.
const maxProducer = 16 << 20

// StoreTasks puts the tasks of a set into the store, their files apart, and returns where they are. Equal sets are one.
func (c *Client) StoreTasks(ctx context.Context, tasks iter.Seq2[rollout.Spec, error]) (rollout.SetRef, error) {
	return c.store.PutTasks(ctx, func(yield func(rollout.Spec, error) bool) {
		for spec, err := range tasks {
			if err == nil {
				spec, err = c.byReference(ctx, spec)
			}
			if !yield(spec, err) || err != nil {
				return
			}
		}
	})
}

// StartProducer starts a producer, or finds the one of that id, whatever it was asked for.
func (c *Client) StartProducer(ctx context.Context, p rollout.ProducerSpec) (rollout.ProducerState, error) {
	if s, err := c.storedProducer(ctx, p.ID); !fault.Is(err, fault.NotFound) {
		return s, err
	}
	if full := c.store.Full(ctx); full != nil {
		if s, err := c.Producer(ctx, p.ID); !fault.Is(err, fault.NotFound) {
			return s, err
		}
		return rollout.ProducerState{}, full
	}
	_, err := c.temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: rollout.ProducerWorkflowID(p.ID), TaskQueue: rollout.TaskQueue,
		WorkflowIDReusePolicy:                    enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		WorkflowIDConflictPolicy:                 enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
		StaticSummary:                            fmt.Sprintf("groups of %d of %d tasks (%s) to %s", p.GroupSize, p.Tasks.Len, p.Name, p.Sink),
		TypedSearchAttributes:                    labelled(rollout.Spec{Owner: p.Owner}),
	}, rollout.ProducerWorkflowName, p)
	var already *serviceerror.WorkflowExecutionAlreadyStarted
	switch {
	case errors.As(err, &already):
		return c.Producer(ctx, p.ID)
	case err != nil:
		return rollout.ProducerState{}, classify(err, "start producer %q", p.ID)
	}
	return rollout.ProducerState{
		ID: p.ID, Owner: p.Owner, Name: p.Name, Sink: p.Sink, GroupSize: p.GroupSize, Phase: rollout.ProducerRunning, Bounds: p.Bounds,
		Running: []rollout.RunningGroup{}, Outbox: []rollout.Finished{}, Again: []rollout.Cursor{}, Evaluated: []rollout.Evaluation{},
	}, nil
}

// Producer returns the state of a producer; fault.NotFound when none has that id.
func (c *Client) Producer(ctx context.Context, id string) (rollout.ProducerState, error) {
	d, err := c.temporal.DescribeWorkflowExecution(ctx, rollout.ProducerWorkflowID(id), "")
	var notFound *serviceerror.NotFound
	info := d.GetWorkflowExecutionInfo()
	switch status := info.GetStatus(); {
	case errors.As(err, &notFound), err == nil && status == enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED:
		return c.storedProducer(ctx, id)
	case err != nil:
		return rollout.ProducerState{}, classify(err, "look at producer %q", id)
	case status == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, status == enumspb.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW:
		return c.askProducer(ctx, id, info)
	}
	s := listedProducer(info)
	s.Phase, s.Outcome, s.Error = rollout.ProducerDone, rollout.ProducerFailed, "the workflow ended as "+info.GetStatus().String()
	return s, nil
}

// askProducer queries the running workflow. One that waits for its first worker has only what Temporal lists.
func (c *Client) askProducer(ctx context.Context, id string, info *workflowpb.WorkflowExecutionInfo) (rollout.ProducerState, error) {
	asking, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	var s rollout.ProducerState
	value, err := c.temporal.QueryWorkflow(asking, rollout.ProducerWorkflowID(id), "", rollout.QueryState)
	if err == nil {
		err = value.Get(&s)
	}
	if err != nil && ctx.Err() == nil && unanswered(asking, err) {
		return listedProducer(info), nil
	}
	return s, classify(err, "ask producer %q", id)
}

func (c *Client) storedProducer(ctx context.Context, id string) (rollout.ProducerState, error) {
	var s rollout.ProducerState
	err := c.readJSON(ctx, store.ProducerKey(id), maxProducer, &s)
	if fault.Is(err, fault.NotFound) {
		return s, fault.New(fault.NotFound, "no producer %q", id)
	}
	return s, err
}

// ProducerOwner is the name of the token that asked for the producer; fault.NotFound when none has that id.
func (c *Client) ProducerOwner(ctx context.Context, id string) (string, error) {
	d, err := c.temporal.DescribeWorkflowExecution(ctx, rollout.ProducerWorkflowID(id), "")
	var notFound *serviceerror.NotFound
	if errors.As(err, &notFound) {
		s, err := c.storedProducer(ctx, id)
		return s.Owner, err
	}
	return ownerIn(d), classify(err, "look at producer %q", id)
}

// ChangeProducer pauses, resumes, stops or bounds a producer. false: it had ended before.
func (c *Client) ChangeProducer(ctx context.Context, id string, change rollout.ProducerChange) (bool, error) {
	return c.signalProducer(ctx, id, rollout.SignalChange, change)
}

// AbortProducer ends a producer and its groups. false: it had ended before.
func (c *Client) AbortProducer(ctx context.Context, id, reason string) (bool, error) {
	return c.signalProducer(ctx, id, rollout.SignalAbort, rollout.Abort{Reason: reason})
}

func (c *Client) signalProducer(ctx context.Context, id, signal string, arg any) (bool, error) {
	err := c.temporal.SignalWorkflow(ctx, rollout.ProducerWorkflowID(id), "", signal, arg)
	if err == nil {
		return true, nil
	}
	if err = classify(err, "signal producer %q", id); !fault.Is(err, fault.NotFound) {
		return false, err
	}
	_, err = c.Producer(ctx, id)
	return false, err
}

// Producers lists producers that Temporal still knows: those that run first, then by their end, latest first. They have no groups and no
// counts.
func (c *Client) Producers(ctx context.Context, f rollout.Filter) (rollout.ProducerPage, error) {
	if err := f.Validate(); err != nil {
		return rollout.ProducerPage{}, err
	}
	token, err := tokenOf(f.Cursor)
	if err != nil {
		return rollout.ProducerPage{}, err
	}
	labels := labelsOf(f)
	got, err := c.temporal.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
		PageSize: int32(f.Limit), NextPageToken: token,
		Query: queryOf(rollout.ProducerWorkflowName, f.Status, labels) + " AND ExecutionStatus != 'ContinuedAsNew'", // an earlier run of a producer
	})
	if err != nil {
		return rollout.ProducerPage{}, classify(err, "list producers")
	}
	page := rollout.ProducerPage{Producers: []rollout.ProducerState{}, Next: cursorOf(got.GetNextPageToken())}
	for _, w := range got.GetExecutions() {
		if carries(listed(w), labels) {
			page.Producers = append(page.Producers, listedProducer(w))
		}
	}
	return page, nil
}

func listedProducer(w *workflowpb.WorkflowExecutionInfo) rollout.ProducerState {
	s := listed(w)
	fields := w.GetSearchAttributes().GetIndexedFields()
	p := rollout.ProducerState{
		ID: strings.TrimPrefix(w.GetExecution().GetWorkflowId(), rollout.ProducerWorkflowID("")), Name: s.TaskID, Owner: s.Owner,
		Phase:   rollout.ProducerPhase(cmp.Or(keyword(fields[searchattr.NamePhase]), string(rollout.ProducerRunning))),
		Running: []rollout.RunningGroup{}, Outbox: []rollout.Finished{}, Again: []rollout.Cursor{}, Evaluated: []rollout.Evaluation{},
		StartedAt: s.StartedAt, FinishedAt: s.FinishedAt,
	}
	if s.Done() {
		p.Phase = rollout.ProducerDone
		p.Outcome = rollout.ProducerOutcome(cmp.Or(keyword(fields[searchattr.NameOutcome]), string(rollout.ProducerFailed)))
	}
	return p
}
