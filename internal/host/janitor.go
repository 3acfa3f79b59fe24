package host

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"github.com/rolloutd/rolloutd/internal/clock"
	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/temporalx/searchattr"
)

// sweepTimeout bounds one sweep.
const sweepTimeout = 2 * time.Minute

// Sandboxes lists and destroys sandboxes; *sandbox.Backend implements it.
type Sandboxes interface {
	Lister
	Destroy(ctx context.Context, id string) error
}

// Describer describes a workflow; client.Client is one.
type Describer interface {
	DescribeWorkflow(ctx context.Context, workflowID, runID string) (*client.WorkflowExecutionDescription, error)
}

// Routes lists a gateway's routes and closes them; *gatewayapi.Client is one.
type Routes interface {
	Routes(ctx context.Context) (ids []string, err error)
	Close(ctx context.Context, id string) error
}

// Janitor destroys the sandboxes, and closes the gateway routes, that no running workflow uses: those of a
// terminated workflow, or of one whose cleanup failed. The workflow's own cleanup and the sandbox's lease
// come before it.
type Janitor struct {
	Sandboxes Sandboxes
	Workflows Describer

	// Routes are those of this host's gateway.
	Routes Routes
	// Grace is the least age of a sandbox that is destroyed: the workflow of a younger one may not have
	// recorded it yet.
	Grace time.Duration

	// between sweeps
	Every  time.Duration
	Logger *slog.Logger
}

// Run sweeps until ctx ends, and returns its error.
func (j *Janitor) Run(ctx context.Context) error {
	for {
		if _, err := j.Sweep(ctx); err != nil && ctx.Err() == nil {
			j.Logger.WarnContext(ctx, "sweep not finished", "error", err)
		}

		if err := clock.Sleep(ctx, j.Every); err != nil {
			return err
		}
	}
}

// Sweep looks at every sandbox and route once and returns the ids of the sandboxes it destroyed. It leaves
// alone those whose workflow cannot be described.
func (j *Janitor) Sweep(ctx context.Context) (destroyed []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()

	destroyed, err = j.sweepSandboxes(ctx)

	return destroyed, errors.Join(err, j.sweepRoutes(ctx))
}

func (j *Janitor) sweepSandboxes(ctx context.Context) (destroyed []string, err error) {
	// with an error, those of the backends that answer
	infos, err := j.Sandboxes.List(ctx)
	errs := []error{err}

	for _, info := range infos {
		orphan, err := j.orphan(ctx, info)
		if err == nil && orphan {
			err = j.remove(ctx, info)
		}

		switch {
		case err != nil:
			errs = append(errs, err)
		case orphan:
			destroyed = append(destroyed, info.ID)
		}
	}

	return destroyed, errors.Join(errs...)
}

// sweepRoutes closes the routes of sandboxes that ended by themselves. It needs no grace period: a workflow
// records its sandbox before it asks for the route.
func (j *Janitor) sweepRoutes(ctx context.Context) error {
	ids, err := j.Routes.Routes(ctx)
	errs := []error{err}

	for _, id := range ids {
		rolloutID, _, _ := strings.Cut(id, ".")

		claimed, err := j.claimed(ctx, rolloutID, id)
		if err == nil && !claimed {
			j.Logger.WarnContext(ctx, "closing an orphaned route", "route", id)
			err = j.Routes.Close(ctx, id)
		}

		errs = append(errs, err)
	}

	return errors.Join(errs...)
}

func (j *Janitor) remove(ctx context.Context, info driver.Info) error {
	j.Logger.WarnContext(ctx, "destroying an orphaned sandbox", "sandbox", info.ID,
		"rollout", info.Labels[driver.LabelRollout])

	if info.Labels[driver.LabelPurpose] == driver.PurposeAgent {
		if err := j.Routes.Close(ctx, info.ID); err != nil {
			return err
		}
	}

	return j.Sandboxes.Destroy(ctx, info.ID)
}

// orphan reports whether no running workflow uses the sandbox. A sandbox without our label is not ours.
func (j *Janitor) orphan(ctx context.Context, info driver.Info) (bool, error) {
	id := info.Labels[driver.LabelRollout]
	if id == "" || time.Since(info.CreatedAt) < j.Grace {
		return false, nil
	}

	claimed, err := j.claimed(ctx, id, info.ID)

	return err == nil && !claimed, err
}

// claimed reports whether the rollout's workflow is running in the attempt of that sandbox, or has not
// reached it: the sandbox of the next attempt exists before the workflow records it, for as long as
// Temporal or the host's worker is away.
func (j *Janitor) claimed(ctx context.Context, rolloutID, sandboxID string) (bool, error) {
	d, err := j.Workflows.DescribeWorkflow(ctx, rollout.WorkflowID(rolloutID), "")
	switch {
	case isNotFound(err):
		return false, nil
	case err != nil:
		return false, err
	case d.Status != enums.WORKFLOW_EXECUTION_STATUS_RUNNING:
		return false, nil
	}

	current, ok := d.TypedSearchAttributes.GetKeyword(searchattr.Typed().Sandbox)
	if !ok {
		// it is in its first attempt, or the cluster has no search attributes
		return true, nil
	}

	return attemptOf(sandboxID) >= attemptOf(current), nil
}

// attemptOf is the attempt in the id of a sandbox or a route.
func attemptOf(id string) int {
	_, rest, _ := strings.Cut(id, ".")
	number, _, _ := strings.Cut(rest, ".")
	n, _ := strconv.Atoi(number)

	return n
}
