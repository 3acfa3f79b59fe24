package workflows

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/rolloutd/rolloutd/activities"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/temporalx/failure"
)

// RegradeWorkflow grades the saved work of a finished rollout with another verifier, part by part, and stores the
// record. A part that cannot be graded is an error in the record. The workflow fails only if the specification is
// Invalid or no record could be stored.
func RegradeWorkflow(ctx workflow.Context, spec rollout.RegradeSpec) (rollout.Summary, error) {
	if err := spec.Validate(); err != nil {
		return rollout.Summary{}, failure.ToTemporal(err)
	}

	in := activities.StoreRegradeInput{Spec: spec, StartedAt: workflow.Now(ctx)}

	for _, part := range spec.Parts {
		if !part.Graded() {
			continue
		}

		if err := regradePart(ctx, spec, part); err != nil {
			in.Error = err.Error()
			break
		}
	}

	in.EndedAt = workflow.Now(ctx)

	return storeRegrade(ctx, in)
}

// regradePart waits for a host with room and grades one part there.
func regradePart(ctx workflow.Context, spec rollout.RegradeSpec, part rollout.RegradePart) error {
	// acts stays nil: it only names the methods.
	var acts *activities.Activities

	limit := part.Timeout + gradingSlack
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:              rollout.CreateQueue(spec.Sandbox.Backend),
		ScheduleToStartTimeout: spec.Queue,
		// with the pull of an image, and a part of the wait for room
		StartToCloseTimeout:    limit + createTries,
		ScheduleToCloseTimeout: spec.Queue + tries*(limit+createTries),
		HeartbeatTimeout:       createHeartbeat,
		RetryPolicy:            uncounted(),
		WaitForCancellation:    true,
		Summary:                "at most " + part.Timeout.String(),
	})
	in := activities.RegradeInput{
		VerifyInput: activities.VerifyInput{
			Target: spec.Target(part), Sandbox: spec.Sandbox, Verifier: part.Verifier, Timeout: part.Timeout,
			Untouched: part.Untouched,
		},
		Owner: spec.Owner, Queue: spec.Queue, Tries: tries,
	}

	err := workflow.ExecuteActivity(ctx, acts.Regrade, in).Get(ctx, nil)

	if isScheduleToStartTimeout(err) {
		return fault.New(fault.Exhausted, "no host had capacity within %s", spec.Queue)
	}

	if err != nil {
		return asFault(err)
	}

	return nil
}

// storeRegrade composes and stores the record, also of a canceled workflow.
func storeRegrade(ctx workflow.Context, in activities.StoreRegradeInput) (rollout.Summary, error) {
	var acts *activities.Activities

	ctx, _ = workflow.NewDisconnectedContext(ctx)
	ctx = workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
		StartToCloseTimeout:    time.Duration(len(in.Spec.Parts)) * composeTry,
		ScheduleToCloseTimeout: composeTimeout,
		RetryPolicy:            composeRetries(),
	})

	var out rollout.Summary

	err := workflow.ExecuteLocalActivity(ctx, acts.StoreRegrade, in).Get(ctx, &out)

	return out, err
}
