package rollouts

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"

	"github.com/rolloutd/rolloutd/internal/clock"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/store"
)

const (
	// shortPoll and longPoll bound one long poll for a workflow's end; see pollTime.
	shortPoll = time.Second
	longPoll  = 10 * time.Second
	// lookTime bounds one request that describes a workflow.
	lookTime = 10 * time.Second
	// outage is how long Temporal may not answer before a caller that waits gets an error.
	outage = 2 * time.Minute
	// resultBound bounds the reading of a result.
	resultBound = 5 * time.Minute
	// maxResult bounds a result of an earlier version, which is read whole for its head.
	maxResult = 1 << 30
	// maxHead bounds a result's head, in bytes; the output of the task's commands is the largest part of it.
	maxHead = 64 << 20
	// maxTranscript bounds a transcript that is read, in bytes.
	maxTranscript = 64 << 20
)

// pollTime is how long one long poll may take, given the time waited so far. A busy server can lose the
// event that ends a poll, so the answer can be late by as much; a new poll costs two requests.
func pollTime(waited time.Duration) time.Duration { return min(max(waited/8, shortPoll), longPoll) }

// Wait returns the head of the rollout's result when it has ended, or ctx's error. Callers share the result
// and must not change it. A workflow that was terminated or failed leaves no result; its rollout is
// reported as infra_failed. Open reads the whole result.
func (c *Client) Wait(ctx context.Context, id string) (rollout.Result, error) {
	for started := time.Now(); ; {
		polled := time.Now()

		completed, _ := shared(ctx, &c.polls, id, pollTime(time.Since(started)), func(ctx context.Context) (bool, error) {
			return c.untilClosed(ctx, rollout.WorkflowID(id)) == nil, nil
		})
		if completed {
			return c.result(ctx, id)
		}

		status, err := c.readStatus(ctx, id)

		var notFound *serviceerror.NotFound
		switch {
		case ctx.Err() != nil:
			return rollout.Result{}, ctx.Err()
		case errors.As(err, &notFound):
			return c.past(ctx, id)
		case err != nil:
			return rollout.Result{}, classify(err, "wait for rollout %q", id)
		case status == enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED:
			return c.result(ctx, id)
		case status != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING:
			return c.unfinished(ctx, id, status), nil
		}
		// a failed poll is not repeated at once
		_ = clock.Sleep(ctx, shortPoll-time.Since(polled))
	}
}

// readStatus returns the status of the workflow. It waits for a Temporal that is busy or restarts, since rollouts
// continue afterwards.
func (c *Client) readStatus(ctx context.Context, id string) (enumspb.WorkflowExecutionStatus, error) {
	for started := time.Now(); ; _ = clock.Sleep(ctx, time.Second) {
		status, err := shared(
			ctx,
			&c.looks,
			id,
			lookTime,
			func(ctx context.Context) (enumspb.WorkflowExecutionStatus, error) {
				d, err := c.temporal.DescribeWorkflowExecution(ctx, rollout.WorkflowID(id), "")
				return d.GetWorkflowExecutionInfo().GetStatus(), err
			},
		)
		if err == nil || ctx.Err() != nil || !transient(err) || time.Since(started) > outage {
			return status, err
		}
	}
}

// transient reports whether an error of Temporal is caused by its state rather than by the request.
func transient(err error) bool {
	var (
		down *serviceerror.Unavailable
		late *serviceerror.DeadlineExceeded
	)

	return errors.As(err, &down) || errors.As(err, &late) || errors.Is(err, context.DeadlineExceeded)
}

// untilClosed waits until a workflow is closed, or ctx ends. It returns nil only if the workflow has
// completed. Its requests have no deadline: Temporal's server answers a long poll at once in the last
// second of its deadline, and the SDK would poll without a pause.
func (c *Client) untilClosed(ctx context.Context, workflowID string) error {
	polling, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	// GetWorkflow would first describe the workflow.
	end, err := c.temporal.GetWorkflowHistory(polling, workflowID, "", true, enumspb.HISTORY_EVENT_FILTER_TYPE_CLOSE_EVENT).
		Next()
	if err == nil && end.GetEventType() != enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED {
		err = fault.New(fault.Conflict, "workflow %q ended with %s", workflowID, end.GetEventType())
	}

	return err
}

// past is the result of a rollout that Temporal does not have, or not any more.
func (c *Client) past(ctx context.Context, id string) (rollout.Result, error) {
	res, err := c.result(ctx, id)
	if fault.Is(err, fault.NotFound) {
		return res, fault.New(fault.NotFound, "no rollout %q", id)
	}

	return res, err
}

// result fetches the result once for all concurrent callers: a decoded result is many times its size in JSON.
func (c *Client) result(ctx context.Context, id string) (rollout.Result, error) {
	return shared(ctx, &c.results, id, resultBound, func(ctx context.Context) (rollout.Result, error) {
		return c.fetch(ctx, id)
	})
}

// fetch reads the head of a result, or takes it from the whole result if there is no head.
func (c *Client) fetch(ctx context.Context, id string) (rollout.Result, error) {
	var res rollout.Result

	err := c.readJSON(ctx, store.HeadKey(id), maxHead, &res)
	if !fault.Is(err, fault.NotFound) {
		return res, err
	}

	old := struct {
		*rollout.Result
		// These shadow the fields that the head leaves out, so that they are skipped and not decoded.
		ProxyTurns   skipped `json:"proxy_turns"`
		WorkdirFiles skipped `json:"workdir_files"`
		Files        skipped `json:"files"`
	}{Result: &res}
	err = c.readJSON(ctx, store.ResultKey(id), maxResult, &old)

	return res.Head(), err
}

// skipped is a JSON value that is not decoded.
type skipped struct{}

func (skipped) UnmarshalJSON([]byte) error { return nil }

// unfinished is the substitute for the result of a workflow that ended without one.
func (c *Client) unfinished(ctx context.Context, id string, status enumspb.WorkflowExecutionStatus) rollout.Result {
	text := "the workflow ended as " + status.String()
	if err := c.temporal.GetWorkflow(ctx, rollout.WorkflowID(id), "").Get(ctx, nil); err != nil && ctx.Err() == nil {
		text += ": " + reasonOf(err)
	}

	res := rollout.NewResult(id)
	res.Outcome, res.Error = rollout.InfraFailed, &text

	return res
}

func (c *Client) readJSON(ctx context.Context, key string, most int64, v any) error {
	data, err := c.store.Bytes(ctx, key, most)
	if err != nil {
		return err
	}

	return fault.Wrap(fault.Internal, json.Unmarshal(data, v), "decode %q", key)
}
