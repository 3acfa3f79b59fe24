package workflows

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/rolloutd/rolloutd/internal/pool"
	"github.com/rolloutd/rolloutd/internal/temporalx/failure"
)

const (
	// looksOfRun bounds the history of one run of PoolWorkflow.
	looksOfRun = 100
	lookTry    = 2 * time.Minute
)

// PoolWorkflow scales a pool until it is down: every Spec.Every, and at once when an operator changes the
// spec. A failed step changes nothing; the next one observes again.
func PoolWorkflow(ctx workflow.Context, in pool.Input) (pool.Status, error) {
	if err := workflow.SetQueryHandler(ctx, pool.QueryStatus, func() (pool.Status, error) {
		return in.Last, nil
	}); err != nil {
		return in.Last, err
	}

	specs := workflow.GetSignalChannel(ctx, pool.SignalSpec)
	for range looksOfRun {
		latestSpec(specs, &in)
		scalePool(ctx, &in)

		if in.Last.Done {
			// An operator may have taken it up again during the look. Runs of an earlier build ended then.
			if latestSpec(specs, &in); in.Spec.Down == "" &&
				workflow.GetVersion(ctx, "take-up-in-last-look", workflow.DefaultVersion, 1) > workflow.DefaultVersion {
				continue
			}

			return in.Last, endPool(ctx, in.Spec)
		}

		if err := awaitLook(ctx, specs, &in); err != nil {
			return in.Last, err
		}
	}

	latestSpec(specs, &in)

	return in.Last, workflow.NewContinueAsNewError(ctx, pool.WorkflowName, in)
}

// latestSpec receives all pending signals and keeps the last spec.
func latestSpec(specs workflow.ReceiveChannel, in *pool.Input) {
	for {
		var s pool.Spec
		if !specs.ReceiveAsync(&s) {
			return
		}

		in.Spec = s
	}
}

// scalePool checks the pool once and scales it. An error is in the status, and the next check tries again.
func scalePool(ctx workflow.Context, in *pool.Input) {
	var now pool.Status

	err := workflow.ExecuteActivity(onPool(ctx, 1), pool.ActivityScale, *in).Get(ctx, &now)
	if err != nil {
		in.Last.Error = failure.FromTemporal(err).Error()
		return
	}

	in.Last = now
}

// awaitLook waits until the next look is due.
func awaitLook(ctx workflow.Context, specs workflow.ReceiveChannel, in *pool.Input) error {
	timed, stop := workflow.WithCancel(ctx)
	defer stop()

	workflow.NewSelector(ctx).
		AddFuture(workflow.NewTimer(timed, in.Spec.Pause()), func(workflow.Future) {}).
		AddReceive(specs, func(c workflow.ReceiveChannel, _ bool) {
			var s pool.Spec
			// false: the payload does not decode
			if c.ReceiveAsync(&s) {
				in.Spec = s
			}
		}).Select(ctx)

	return ctx.Err()
}

// endPool removes the schedule, which would start the pool again.
func endPool(ctx workflow.Context, s pool.Spec) error {
	return workflow.ExecuteActivity(onPool(ctx, 0), pool.ActivityEnd, s).Get(ctx, nil)
}

// onPool is the context of an activity with at most tries tries; 0: no limit.
func onPool(ctx workflow.Context, tries int32) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: lookTry,
		RetryPolicy:         &temporal.RetryPolicy{MaximumAttempts: tries, MaximumInterval: time.Minute},
	})
}

// RegisterPool registers PoolWorkflow, which has its own queue.
func RegisterPool(w worker.WorkflowRegistry) {
	w.RegisterWorkflowWithOptions(PoolWorkflow, workflow.RegisterOptions{
		Name:               pool.WorkflowName,
		VersioningBehavior: workflow.VersioningBehaviorAutoUpgrade,
	})
}
