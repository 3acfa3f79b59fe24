package rollouts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"golang.org/x/sync/singleflight"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/store"
	"github.com/rolloutd/rolloutd/internal/temporalx/failure"
	"github.com/rolloutd/rolloutd/internal/temporalx/searchattr"
)

// Temporal is the part of the Temporal client that is used; client.Client implements it.
type Temporal interface {
	ExecuteWorkflow(
		ctx context.Context,
		options client.StartWorkflowOptions,
		workflow any,
		args ...any,
	) (client.WorkflowRun, error)
	GetWorkflow(ctx context.Context, workflowID, runID string) client.WorkflowRun
	QueryWorkflow(ctx context.Context, workflowID, runID, queryType string, args ...any) (converter.EncodedValue, error)
	SignalWorkflow(ctx context.Context, workflowID, runID, signalName string, arg any) error
	DescribeWorkflowExecution(
		ctx context.Context,
		workflowID, runID string,
	) (*workflowservice.DescribeWorkflowExecutionResponse, error)
	GetWorkflowHistory(
		ctx context.Context,
		workflowID, runID string,
		isLongPoll bool,
		filter enumspb.HistoryEventFilterType,
	) client.HistoryEventIterator
	UpdateWorkflow(ctx context.Context, options client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error)
	GetWorkflowUpdateHandle(options client.GetWorkflowUpdateHandleOptions) client.WorkflowUpdateHandle
	ListWorkflow(
		ctx context.Context,
		request *workflowservice.ListWorkflowExecutionsRequest,
	) (*workflowservice.ListWorkflowExecutionsResponse, error)
	CountWorkflow(
		ctx context.Context,
		request *workflowservice.CountWorkflowExecutionsRequest,
	) (*workflowservice.CountWorkflowExecutionsResponse, error)
}

// startBound bounds the start of a workflow.
const startBound = time.Minute

// Client starts, queries, aborts and waits for rollouts. It is safe for concurrent use and keeps no state
// between calls.
type Client struct {
	temporal Temporal

	// queue of the workflows that it starts
	queue    string
	store    *store.Store
	payloads converter.DataConverter
	failures *temporal.DefaultFailureConverter
	hosts    Hosts

	// by rollout
	starts, looks, polls, results, owners singleflight.Group

	// by key of the trace
	indexes singleflight.Group
}

// New makes a Client that starts workflows on a task queue. payloads must be the data converter that the workers use.
func New(t Temporal, queue string, st *store.Store, payloads converter.DataConverter, hosts Hosts) *Client {
	return &Client{
		temporal: t, queue: queue, store: st, payloads: payloads, hosts: hosts,
		failures: temporal.NewDefaultFailureConverter(temporal.DefaultFailureConverterOptions{DataConverter: payloads}),
	}
}

// Start starts the rollout, or finds the one with that id, running or ended; the specification of an
// existing one is not compared. Above the store's high-water mark no rollout starts (fault.Exhausted). The
// edge has validated the specification, and the workflow does so again.
func (c *Client) Start(ctx context.Context, spec rollout.Spec) (rollout.State, error) {
	return shared(ctx, &c.starts, spec.ID, startBound, func(ctx context.Context) (rollout.State, error) {
		return c.start(ctx, spec)
	})
}

func (c *Client) start(ctx context.Context, spec rollout.Spec) (rollout.State, error) {
	// Temporal forgets a rollout when its retention ends; the store does not. The lookup is not shared with
	// callers that wait for the result, since the result may be stored a moment later.
	res, err := c.fetch(ctx, spec.ID)
	if err == nil {
		return stateOf(res), nil
	}

	if !fault.Is(err, fault.NotFound) {
		return rollout.State{}, err
	}

	spec, err = c.byReference(ctx, spec)
	// the uploads of an existing rollout may be gone
	if err != nil {
		if s, missing := c.existing(ctx, spec.ID); missing == nil {
			return s, nil
		}

		return rollout.State{}, err
	}

	if full := c.store.Full(ctx); full != nil {
		s, err := c.existing(ctx, spec.ID)
		if fault.Is(err, fault.NotFound) {
			return s, full
		}

		return s, err
	}

	started, err := c.startOnce(ctx, launch{
		id:       rollout.WorkflowID(spec.ID),
		name:     rollout.WorkflowName,
		summary:  summary(spec),
		labels:   temporal.NewSearchAttributes(searchattr.Typed().AtStart(spec)...),
		memo:     searchattr.Memo(spec),
		priority: priorityOf(spec.Owner, ""),
		input:    spec,
	})
	switch {
	case err != nil:
		return rollout.State{}, err
	case !started:
		return c.existing(ctx, spec.ID)
	}

	return rollout.State{
		ID:        spec.ID,
		TaskID:    spec.Task.ID,
		GroupID:   spec.GroupID,
		Owner:     spec.Owner,
		Phase:     rollout.PhaseQueued,
		StartedAt: time.Now(),
	}, nil
}

// Spec returns what a rollout was started with, from its history; fault.NotFound when Temporal has it no more.
func (c *Client) Spec(ctx context.Context, id string) (spec rollout.Spec, err error) {
	var input *commonpb.Payloads

	err = c.eachEvent(ctx, rollout.WorkflowID(id), func(e *historypb.HistoryEvent) bool {
		input = e.GetWorkflowExecutionStartedEventAttributes().GetInput()
		return false
	})
	if fault.Is(err, fault.NotFound) {
		return spec, fault.New(fault.NotFound, "the task of rollout %q is not known: Temporal has no history of it", id)
	}

	if err == nil {
		err = fault.Wrap(fault.Internal, c.payloads.FromPayloads(input, &spec), "input of rollout %q", id)
	}

	return spec, err
}

// maxTexts bounds the files that TaskFiles returns, in bytes.
const maxTexts = 1 << 20

// TaskFiles returns the files of a rollout's task by their absolute paths; nil: they are not texts of 1 MiB at most.
func (c *Client) TaskFiles(ctx context.Context, id string) (map[string]string, error) {
	spec, err := c.Spec(ctx, id)
	if err != nil || spec.Task.FilesRef == nil {
		return spec.Task.Files, err
	}

	texts, err := c.store.Texts(ctx, *spec.Task.FilesRef, maxTexts)
	if errors.Is(err, store.ErrNotText) || fault.Is(err, fault.NotFound) {
		return nil, nil
	}

	return texts, err
}

// byReference moves the task's files to the store: they may be larger than a workflow's input, and every
// attempt would carry them.
func (c *Client) byReference(ctx context.Context, spec rollout.Spec) (rollout.Spec, error) {
	task, err := c.taskByReference(ctx, spec.Owner, spec.Task)
	if err != nil {
		return spec, err
	}

	task.Steps = slices.Clone(task.Steps)
	for n := range task.Steps {
		if task.Steps[n].Task, err = c.taskByReference(ctx, spec.Owner, task.Steps[n].Task); err != nil {
			return spec, err
		}
	}

	spec.Task = task

	return spec, nil
}

func (c *Client) taskByReference(ctx context.Context, owner string, t rollout.Task) (rollout.Task, error) {
	files, tests, err := c.store.PutTaskFiles(ctx, owner, t)
	if err != nil {
		return t, err
	}

	_, t.Verifier = t.Split()
	if files != nil {
		t.FilesRef = files
	}

	if tests != nil {
		t.Verifier.FilesRef = tests
	}

	t.Files, t.Uploads = nil, nil

	return t, nil
}

// summary is the line that Temporal's list shows.
func summary(s rollout.Spec) string {
	const most = 80

	text := []rune(s.Task.Instruction)
	if len(text) > most {
		text = append(text[:most], '…')
	}

	return fmt.Sprintf("%s on %s: %s", s.Agent, s.Model.Name, string(text))
}

// Abort asks a rollout to end; false when it has ended already.
func (c *Client) Abort(ctx context.Context, id, reason string) (bool, error) {
	sent, err := c.signal(ctx, rollout.WorkflowID(id), rollout.SignalAbort, rollout.Abort{Reason: reason})
	if err == nil && !sent {
		_, err = c.State(ctx, id)
	}

	return sent, err
}

// Messages returns the current transcript of a working agent, else the one that was stored for the newest
// attempt that has one. The error is a fault.NotFound if there is none yet.
func (c *Client) Messages(ctx context.Context, id string) (rollout.Transcript, error) {
	s, err := c.State(ctx, id)
	if err != nil {
		return rollout.Transcript{}, err
	}

	if s.Phase == rollout.PhaseAgent && s.Host != "" {
		now, err := c.hosts.Transcript(ctx, s.Host, rollout.Target{RolloutID: id, Attempt: s.Attempt})
		if err == nil && len(now.Messages) > 0 {
			return now, nil
		}
	}

	for n := s.Attempt; n > 0; n-- {
		var t rollout.Transcript

		err := c.readJSON(ctx, store.AttemptKey(id, n, store.Transcript), maxTranscript, &t)
		if err == nil || !fault.Is(err, fault.NotFound) {
			return t, err
		}
	}

	if s.Done() {
		return rollout.Transcript{}, fault.New(fault.NotFound, "the agent of rollout %q left no transcript", id)
	}

	return rollout.Transcript{}, fault.New(fault.NotFound, "rollout %q has no transcript yet", id)
}

// classify wraps an error of Temporal in its kind.
func classify(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}

	var (
		notFound  *serviceerror.NotFound
		denied    *serviceerror.PermissionDenied
		invalid   *serviceerror.InvalidArgument
		exhausted *serviceerror.ResourceExhausted
		away      *serviceerror.Unavailable
		late      *serviceerror.DeadlineExceeded
	)

	kind := fault.Unavailable

	switch {
	case errors.As(err, &notFound):
		kind = fault.NotFound
	case errors.As(err, &denied):
		kind = fault.Unauthorized
	case errors.As(err, &invalid):
		kind = fault.Invalid
	case errors.As(err, &exhausted):
		kind = fault.Exhausted
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		kind = fault.Timeout
	case errors.As(err, &away), errors.As(err, &late):
		err = fmt.Errorf("Temporal does not answer: %w", err)
	default:
		// a message such as "context deadline exceeded" does not name the service
		err = fmt.Errorf("Temporal: %w", err)
	}

	return fault.Wrap(kind, err, format, args...)
}

// reasonOf is why a workflow did not complete.
func reasonOf(err error) string { return failure.FromTemporal(err).Error() }
