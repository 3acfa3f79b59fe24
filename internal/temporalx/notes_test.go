package temporalx_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/temporalx"
)

type place struct{ Line int }

// The heartbeats of an activity carry its latest note, which its next attempt reads.
func TestNotes(t *testing.T) {
	t.Parallel()

	beats := make(chan place, 100)
	env := (&testsuite.WorkflowTestSuite{}).NewTestWorkflowEnvironment()
	env.SetWorkerOptions(worker.Options{
		DeadlockDetectionTimeout: 10 * time.Minute,
		Interceptors:             []interceptor.WorkerInterceptor{&temporalx.Interceptor{}},
	})
	env.SetTestTimeout(10 * time.Minute)
	env.SetOnActivityHeartbeatListener(func(_ *activity.Info, details converter.EncodedValues) {
		var p place

		_ = details.Get(&p)
		beats <- p
	})
	env.RegisterActivityWithOptions(func(ctx context.Context) error {
		var before place
		if activity.GetInfo(ctx).Attempt == 2 {
			require.True(t, temporalx.Noted(ctx, &before))
			require.Equal(t, place{2}, before)

			return nil
		}

		require.False(t, temporalx.Noted(ctx, &before))
		temporalx.Note(ctx, place{1})
		temporalx.Note(ctx, place{2})

		select {
		case p := <-beats:
			require.Equal(t, place{2}, p)
		case <-ctx.Done():
			return ctx.Err()
		}

		return fault.New(fault.Unavailable, "again")
	}, activity.RegisterOptions{Name: "Step"})
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
			StartToCloseTimeout: time.Hour,
			HeartbeatTimeout:    3 * time.Second,
		})

		return workflow.ExecuteActivity(ctx, "Step").Get(ctx, nil)
	})
	require.NoError(t, env.GetWorkflowError())
}

// Note does nothing outside of an activity.
func TestNoNotes(t *testing.T) {
	t.Parallel()
	temporalx.Note(t.Context(), place{1})

	var p place
	require.False(t, temporalx.Noted(t.Context(), &p))
	require.Zero(t, p)
}
