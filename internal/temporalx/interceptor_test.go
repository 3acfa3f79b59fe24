package temporalx_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/temporalx"
	"github.com/rolloutd/rolloutd/internal/temporalx/failure"
)

// runOne runs the activity once with the interceptor.
func runOne(t *testing.T, heartbeat time.Duration, run func(context.Context) error, beats func()) error {
	t.Helper()

	env := (&testsuite.WorkflowTestSuite{}).NewTestWorkflowEnvironment()
	env.SetWorkerOptions(worker.Options{
		DeadlockDetectionTimeout: 10 * time.Minute,
		Interceptors:             []interceptor.WorkerInterceptor{&temporalx.Interceptor{}},
	})
	env.SetTestTimeout(10 * time.Minute)
	env.SetOnActivityHeartbeatListener(func(*activity.Info, converter.EncodedValues) { beats() })
	env.RegisterActivityWithOptions(run, activity.RegisterOptions{Name: "Step"})
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
			StartToCloseTimeout: time.Hour,
			HeartbeatTimeout:    heartbeat,
			RetryPolicy:         &temporal.RetryPolicy{MaximumAttempts: 1},
		})

		return workflow.ExecuteActivity(ctx, "Step").Get(ctx, nil)
	})
	require.True(t, env.IsWorkflowCompleted())

	return env.GetWorkflowError()
}

// An activity that never heartbeats itself has heartbeats from its start to its end, and none after.
func TestHeartbeatsWhileRunning(t *testing.T) {
	t.Parallel()

	beat := make(chan struct{}, 1)
	// Long enough for a slow machine: the test environment enforces the timeout.
	require.NoError(t, runOne(t, 3*time.Second, func(ctx context.Context) error {
		for range 2 {
			select {
			case <-beat:
			case <-ctx.Done():
				return ctx.Err()
			}
		}

		return nil
	}, func() {
		select {
		case beat <- struct{}{}:
		default: // the last heartbeat is not counted yet
		}
	}))
}

func TestNoHeartbeatWhereNoneIsAsked(t *testing.T) {
	t.Parallel()
	require.NoError(t, runOne(t, 0, func(context.Context) error { return nil }, func() { t.Error("heartbeat") }))
}

func TestActivityErrorsKeepTheirKind(t *testing.T) {
	t.Parallel()
	err := runOne(t, 0, func(context.Context) error { return fault.New(fault.SandboxLost, "gone") }, func() {})
	require.Equal(t, fault.SandboxLost, fault.KindOf(failure.FromTemporal(err)))

	var app *temporal.ApplicationError
	require.ErrorAs(t, err, &app)
	require.True(t, app.NonRetryable())
}

// All heartbeats repeat the activity's latest details, in the next attempt too.
func TestHeartbeatsRepeatTheLatestDetails(t *testing.T) {
	t.Parallel()

	beats := make(chan string, 100)
	env := (&testsuite.WorkflowTestSuite{}).NewTestWorkflowEnvironment()
	env.SetWorkerOptions(worker.Options{
		DeadlockDetectionTimeout: 10 * time.Minute,
		Interceptors:             []interceptor.WorkerInterceptor{&temporalx.Interceptor{}},
	})
	env.SetTestTimeout(10 * time.Minute)
	env.SetOnActivityHeartbeatListener(func(_ *activity.Info, details converter.EncodedValues) {
		var text string
		if details.HasValues() {
			_ = details.Get(&text)
		}

		beats <- text
	})
	// await returns the details of the next heartbeat.
	await := func(ctx context.Context) (details string) {
		select {
		case details = <-beats:
		case <-ctx.Done():
		}

		return details
	}
	env.RegisterActivityWithOptions(func(ctx context.Context) error {
		if activity.GetInfo(ctx).Attempt == 1 {
			activity.RecordHeartbeat(ctx, "where I am")
			require.Equal(t, "where I am", await(ctx))
		}

		require.Equal(t, "where I am", await(ctx))

		if activity.GetInfo(ctx).Attempt < 3 {
			return fault.New(fault.Unavailable, "again")
		}

		return nil
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
