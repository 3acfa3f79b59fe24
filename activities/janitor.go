package activities

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox/driver"
	"github.com/rolloutd/rolloutd/internal/temporalx/searchattr"
)

// sweepTimeout bounds one sweep.
const sweepTimeout = 2 * time.Minute

// Sandboxes is what the janitor tidies; *sandbox.Backend is one.
type Sandboxes interface {
	Lister
	Destroy(ctx context.Context, id string) error
}

// Describer tells of a workflow; client.Client is one.
type Describer interface {
	DescribeWorkflow(ctx context.Context, workflowID, runID string) (*client.WorkflowExecutionDescription, error)
}

// Routes tells of a gateway's routes and forgets them; *gateway.Client is one.
type Routes interface {
	Routes(ctx context.Context) (ids []string, err error)
	Close(ctx context.Context, id string) error
}

// Janitor destroys sandboxes that no open workflow claims, and forgets such gateway routes: what a terminated workflow, or one
// whose cleanup failed, left behind. It is the last of three; the workflow's own cleanup and the sandbox's lease come before it.
type Janitor struct {
	Sandboxes Sandboxes
	Workflows Describer
	Routes    Routes // of the same host's gateway
	// Grace is how old a sandbox must be: a young one's workflow may not have noted it yet.
	Grace  time.Duration
	Every  time.Duration // between sweeps
	Logger *slog.Logger
}

// Run sweeps until ctx ends.
func (j *Janitor) Run(ctx context.Context) {
	tick := time.NewTicker(j.Every)
	defer tick.Stop()
	for {
		if _, err := j.Sweep(ctx); err != nil && ctx.Err() == nil {
			j.Logger.WarnContext(ctx, "sweep not finished", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Sweep looks at every sandbox and route once and tells which sandboxes it destroyed. What it is not sure about it leaves alone.
func (j *Janitor) Sweep(ctx context.Context) (destroyed []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	destroyed, err = j.sweepSandboxes(ctx)
	return destroyed, errors.Join(err, j.sweepRoutes(ctx))
}

func (j *Janitor) sweepSandboxes(ctx context.Context) (destroyed []string, err error) {
	infos, err := j.Sandboxes.List(ctx)
	if err != nil {
		return nil, err
	}
	var errs []error
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

// sweepRoutes forgets the routes of sandboxes that ended by themselves. It needs no grace: a workflow notes its sandbox before
// it asks for the route.
func (j *Janitor) sweepRoutes(ctx context.Context) error {
	ids, err := j.Routes.Routes(ctx)
	errs := []error{err}
	for _, id := range ids {
		rolloutID, _, _ := strings.Cut(id, ".")
		claimed, err := j.claimed(ctx, rolloutID, id)
		if err == nil && !claimed {
			j.Logger.WarnContext(ctx, "forgetting an orphan", "route", id)
			err = j.Routes.Close(ctx, id)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (j *Janitor) remove(ctx context.Context, info driver.Info) error {
	j.Logger.WarnContext(ctx, "destroying an orphan", "sandbox", info.ID, "rollout", info.Labels[driver.LabelRollout])
	if info.Labels[driver.LabelPurpose] == purposeAgent {
		if err := j.Routes.Close(ctx, info.ID); err != nil {
			return err
		}
	}
	return j.Sandboxes.Destroy(ctx, info.ID)
}

// orphan says whether no open workflow claims the sandbox. One without our label is somebody else's.
func (j *Janitor) orphan(ctx context.Context, info driver.Info) (bool, error) {
	id := info.Labels[driver.LabelRollout]
	if id == "" || time.Since(info.CreatedAt) < j.Grace {
		return false, nil
	}
	claimed, err := j.claimed(ctx, id, info.ID)
	return err == nil && !claimed, err
}

// claimed says whether the rollout's workflow is open and at the attempt of that sandbox.
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
		return true, nil // it is in its first attempt, or the cluster does not tell
	}
	return sandboxID == current || strings.HasPrefix(sandboxID, current+"."), nil
}
