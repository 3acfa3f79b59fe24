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

// runOne runs the activity once, as a worker with our interceptor would.
func runOne(t *testing.T, heartbeat time.Duration, run func(context.Context) error, beats func()) error {
	t.Helper()
	env := (&testsuite.WorkflowTestSuite{}).NewTestWorkflowEnvironment()
	env.SetWorkerOptions(worker.Options{Interceptors: []interceptor.WorkerInterceptor{&temporalx.Interceptor{}}})
	env.SetOnActivityHeartbeatListener(func(*activity.Info, converter.EncodedValues) { beats() })
	env.RegisterActivityWithOptions(run, activity.RegisterOptions{Name: "Step"})
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
			StartToCloseTimeout: time.Hour, HeartbeatTimeout: heartbeat, RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1},
		})
		return workflow.ExecuteActivity(ctx, "Step").Get(ctx, nil)
	})
	require.True(t, env.IsWorkflowCompleted())
	return env.GetWorkflowError()
}

// An activity that thinks of nothing but its work heartbeats all the while, and no longer.
func TestHeartbeatsWhileRunning(t *testing.T) {
	t.Parallel()
	beat := make(chan struct{}, 1)
	// Long enough that a busy machine does not miss one: the test environment holds the activity to its timeout.
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
		default: // the last one has not been counted yet
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

// What an activity tells with a heartbeat is told by all that follow, on the next try too: a beat without it would take it back.
func TestHeartbeatsRepeatWhatWasTold(t *testing.T) {
	t.Parallel()
	beats := make(chan string, 100)
	env := (&testsuite.WorkflowTestSuite{}).NewTestWorkflowEnvironment()
	env.SetWorkerOptions(worker.Options{Interceptors: []interceptor.WorkerInterceptor{&temporalx.Interceptor{}}})
	env.SetOnActivityHeartbeatListener(func(_ *activity.Info, details converter.EncodedValues) {
		var said string
		if details.HasValues() {
			_ = details.Get(&said)
		}
		beats <- said
	})
	// await returns when something was told, or not, by a beat.
	await := func(ctx context.Context) (said string) {
		select {
		case said = <-beats:
		case <-ctx.Done():
		}
		return said
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
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Hour, HeartbeatTimeout: 3 * time.Second})
		return workflow.ExecuteActivity(ctx, "Step").Get(ctx, nil)
	})
	require.NoError(t, env.GetWorkflowError())
}
