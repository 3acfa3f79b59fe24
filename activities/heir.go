package activities

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

	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox/driver"
	"github.com/rolloutd/rolloutd/internal/temporalx/failure"
)

// inheritTimeout bounds what an heir does before its worker starts. What it does not come to costs a missed heartbeat.
const inheritTimeout = 15 * time.Second

// Steps tells of a workflow's open steps and ends them from outside; client.Client is one.
type Steps interface {
	DescribeWorkflowExecution(ctx context.Context, workflowID, runID string) (*workflowservice.DescribeWorkflowExecutionResponse, error)
	CompleteActivityByID(ctx context.Context, namespace, workflowID, runID, activityID string, result any, err error) error
}

// Identity is what the worker of a host, this process, calls itself to Temporal.
func Identity(host string) string { return host + "/" + strconv.Itoa(os.Getpid()) }

// Heir has the steps given out again that this host's last worker was at when it was killed. They would lie until their
// heartbeat is missed.
type Heir struct {
	Host      string
	Namespace string // of Temporal
	Steps     Steps
	Sandboxes Lister
	Logger    *slog.Logger
}

// Inherit ends what workers of this host hold of the rollouts that have a sandbox here, and tells how many steps it ended. No
// worker of the host may run: all of its steps find what was done, but two of one must not run at once.
func (h *Heir) Inherit(ctx context.Context) (steps int, err error) {
	ctx, cancel := context.WithTimeout(ctx, inheritTimeout)
	defer cancel()
	infos, err := h.Sandboxes.List(ctx)
	errs := []error{err}
	seen := map[string]bool{"": true} // a sandbox without a label is somebody else's
	for _, info := range infos {
		if id := info.Labels[driver.LabelRollout]; !seen[id] {
			seen[id] = true
			n, err := h.inherit(ctx, rollout.WorkflowID(id))
			steps, errs = steps+n, append(errs, err)
		}
	}
	return steps, errors.Join(errs...)
}

func (h *Heir) inherit(ctx context.Context, workflowID string) (steps int, err error) {
	about, err := h.Steps.DescribeWorkflowExecution(ctx, workflowID, "")
	if isNotFound(err) {
		return 0, nil // the janitor's
	}
	if err != nil {
		return 0, err
	}
	var errs []error
	for _, step := range about.GetPendingActivities() {
		held := step.GetState() == enums.PENDING_ACTIVITY_STATE_STARTED
		if !held || !strings.HasPrefix(step.GetLastWorkerIdentity(), h.Host+"/") {
			continue
		}
		run := about.GetWorkflowExecutionInfo().GetExecution().GetRunId()
		err := h.Steps.CompleteActivityByID(ctx, h.Namespace, workflowID, run, step.GetActivityId(), nil, failure.Restarting())
		switch {
		case isNotFound(err): // it waits to be given out again already
		case err != nil:
			errs = append(errs, err)
		default:
			steps++
			h.Logger.InfoContext(ctx, "giving out again what a killed worker was at", "step", step.GetActivityType().GetName(), "workflow", workflowID)
		}
	}
	return steps, errors.Join(errs...)
}

func isNotFound(err error) bool {
	var notFound *serviceerror.NotFound
	return errors.As(err, &notFound)
}
