package activities

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
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

// Routes forgets a gateway's route; *gateway.Client is one.
type Routes interface {
	Close(ctx context.Context, id string) error
}

// Janitor destroys sandboxes that no open workflow claims: what a terminated workflow, or one whose cleanup failed, left
// behind. It is the last of three; the workflow's own cleanup and the sandbox's lease come before it.
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

// Sweep looks at every sandbox once and tells which it destroyed. What it is not sure about it leaves alone.
func (j *Janitor) Sweep(ctx context.Context) (destroyed []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
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
	d, err := j.Workflows.DescribeWorkflow(ctx, rollout.WorkflowID(id), "")
	var notFound *serviceerror.NotFound
	switch {
	case errors.As(err, &notFound):
		return true, nil
	case err != nil:
		return false, err
	case d.Status != enums.WORKFLOW_EXECUTION_STATUS_RUNNING:
		return true, nil
	}
	current, ok := d.TypedSearchAttributes.GetKeyword(searchattr.Typed().Sandbox)
	if !ok {
		return false, nil // it is in its first attempt, or the cluster does not tell
	}
	return info.ID != current && !strings.HasPrefix(info.ID, current+"."), nil
}
