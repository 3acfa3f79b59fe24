package host_test

import (
	"context"
	"log/slog"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/host"
	"github.com/rolloutd/rolloutd/internal/temporalx/failure"
)

// deadWorker is what a dead worker left: its sandboxes, and the pending activities of their workflows by workflow id.
type deadWorker struct {
	sandboxes []driver.Info
	steps     map[string][]*workflow.PendingActivityInfo
	ended     []string

	// an activity that completes before the takeover fails it
	gone string
}

func (e *deadWorker) List(context.Context) ([]driver.Info, error) { return e.sandboxes, nil }

func (e *deadWorker) DescribeWorkflowExecution(
	_ context.Context,
	id, _ string,
) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	steps, ok := e.steps[id]
	if !ok {
		return nil, serviceerror.NewNotFound("no such workflow")
	}

	return &workflowservice.DescribeWorkflowExecutionResponse{
		WorkflowExecutionInfo: &workflow.WorkflowExecutionInfo{
			Execution: &common.WorkflowExecution{RunId: "run-of-" + id},
		},
		PendingActivities: steps,
	}, nil
}

func (e *deadWorker) CompleteActivityByID(
	_ context.Context,
	namespace, id, run, step string,
	result any,
	err error,
) error {
	if step == e.gone {
		return serviceerror.NewNotFound("no such step")
	}

	if result == nil && err.Error() == failure.Restarting().Error() {
		e.ended = append(e.ended, namespace+" "+id+" "+run+" "+step)
	}

	return nil
}

func pending(n int, worker string, state enums.PendingActivityState) *workflow.PendingActivityInfo {
	return &workflow.PendingActivityInfo{
		ActivityId:         strconv.Itoa(n),
		ActivityType:       &common.ActivityType{Name: "RunAgent"},
		LastWorkerIdentity: worker,
		State:              state,
	}
}

// Only activities that a worker of this host ran are retried. Activities that are scheduled, run on another
// host or have an unknown worker are left alone.
func TestTakeoverRetriesTheActivitiesOfADeadWorker(t *testing.T) {
	t.Parallel()

	const started, scheduled = enums.PENDING_ACTIVITY_STATE_STARTED, enums.PENDING_ACTIVITY_STATE_SCHEDULED

	box := func(id, rollout string) driver.Info {
		return driver.Info{ID: id, Labels: map[string]string{driver.LabelRollout: rollout}}
	}
	e := &deadWorker{
		sandboxes: []driver.Info{
			box("a.1", "a"),
			box("a.1.v", "a"),
			box("b.1", "b"),
			box("c.1", "c"),
			{ID: "of-somebody-else"},
		},
		steps: map[string][]*workflow.PendingActivityInfo{
			"rollout-a": {
				pending(1, "h1/7", started),
				pending(2, "h1/7", scheduled),
				pending(3, "h11/7", started),
				pending(4, "7@h1@", started),
			},
			"rollout-b": {pending(5, "h1/8", started), pending(6, "h1/8", started)},
			"rollout-d": {pending(7, "h1/7", started)}, // has no sandbox here
		},
		gone: "6",
	}
	takeover := &host.Takeover{
		Host:      "h1",
		Namespace: "ns",
		Pending:   e,
		Sandboxes: e,
		Logger:    slog.New(slog.DiscardHandler),
	}
	reclaimed, err := takeover.Reclaim(t.Context())
	require.NoError(t, err)
	require.Equal(t, 2, reclaimed)
	require.Equal(t, []string{"ns rollout-a run-of-rollout-a 1", "ns rollout-b run-of-rollout-b 5"}, e.ended)
	require.Contains(t, host.Identity("h1"), "h1/")
}
