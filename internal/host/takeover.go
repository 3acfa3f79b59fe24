package host

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/temporalx/failure"
)

// takeoverTimeout bounds Reclaim, which runs before the worker starts. An activity that it does not reach
// in time is retried after its heartbeat timeout.
const takeoverTimeout = 15 * time.Second

// Pending lists a workflow's pending activities and completes them from outside; client.Client is one.
type Pending interface {
	DescribeWorkflowExecution(
		ctx context.Context,
		workflowID, runID string,
	) (*workflowservice.DescribeWorkflowExecutionResponse, error)
	CompleteActivityByID(
		ctx context.Context,
		namespace, workflowID, runID, activityID string,
		result any,
		err error,
	) error
}

// Identity is the name under which this process polls Temporal as the worker of a host.
func Identity(host string) string { return host + "/" + strconv.Itoa(os.Getpid()) }

// Takeover makes Temporal retry the activities of a worker that died on this host.
//
// A worker that is killed leaves its activities assigned to it until their heartbeat timeout. Takeover runs
// when the next worker of the same host starts, finds the activities of the rollouts that have a sandbox
// here, and fails them with a retryable error, so that Temporal schedules them again at once. It is safe to
// run twice.
type Takeover struct {
	Host string

	// namespace of Temporal
	Namespace string
	Pending   Pending
	Sandboxes Lister
	Logger    *slog.Logger
}

// Reclaim fails the activities that earlier workers of this host hold, and returns how many. No worker of
// the host may run: the same activity would run twice at once.
func (t *Takeover) Reclaim(ctx context.Context) (activities int, err error) {
	ctx, cancel := context.WithTimeout(ctx, takeoverTimeout)
	defer cancel()

	infos, err := t.Sandboxes.List(ctx)
	errs := []error{err}
	// a sandbox without a label is not ours
	seen := map[string]bool{"": true}
	for _, info := range infos {
		if id := info.Labels[driver.LabelRollout]; !seen[id] {
			seen[id] = true
			n, err := t.reclaim(ctx, rollout.WorkflowID(id))
			activities, errs = activities+n, append(errs, err)
		}
	}

	return activities, errors.Join(errs...)
}

func (t *Takeover) reclaim(ctx context.Context, workflowID string) (activities int, err error) {
	about, err := t.Pending.DescribeWorkflowExecution(ctx, workflowID, "")
	if isNotFound(err) {
		// the janitor removes its sandbox
		return 0, nil
	}

	if err != nil {
		return 0, err
	}

	var errs []error

	for _, a := range about.GetPendingActivities() {
		started := a.GetState() == enums.PENDING_ACTIVITY_STATE_STARTED
		if !started || !strings.HasPrefix(a.GetLastWorkerIdentity(), t.Host+"/") {
			continue
		}

		run := about.GetWorkflowExecutionInfo().GetExecution().GetRunId()

		err := t.Pending.CompleteActivityByID(ctx, t.Namespace, workflowID, run, a.GetActivityId(), nil,
			failure.Restarting())
		switch {
		case isNotFound(err): // it is being retried already
		case err != nil:
			errs = append(errs, err)
		default:
			activities++

			t.Logger.InfoContext(ctx, "retrying an activity of a killed worker",
				"activity", a.GetActivityType().GetName(), "workflow", workflowID)
		}
	}

	return activities, errors.Join(errs...)
}

func isNotFound(err error) bool {
	var notFound *serviceerror.NotFound
	return errors.As(err, &notFound)
}
