package daemon_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"

	"github.com/rolloutd/rolloutd/internal/daemon"
	"github.com/rolloutd/rolloutd/internal/fault"
)

// runActivity runs an activity in a worker with the given stop channel.
func runActivity(t *testing.T, stop chan struct{}, activity func(context.Context) (string, error)) (string, error) {
	t.Helper()

	var suite testsuite.WorkflowTestSuite

	env := suite.NewTestActivityEnvironment()
	env.SetWorkerOptions(worker.Options{Interceptors: []interceptor.WorkerInterceptor{daemon.NewRestarts()}})
	env.SetWorkerStopChannel(stop)
	env.RegisterActivity(activity)

	value, err := env.ExecuteActivity(activity)
	if err != nil {
		return "", err
	}

	var s string
	require.NoError(t, value.Get(&s))

	return s, nil
}

func TestActivitiesEndAtOnceWhenTheirWorkerStops(t *testing.T) {
	t.Parallel()

	stop := make(chan struct{})
	_, err := runActivity(t, stop, func(ctx context.Context) (string, error) {
		close(stop)
		<-ctx.Done()

		return "", context.Cause(ctx)
	})
	// the error that the server would see
	var app *temporal.ApplicationError
	require.ErrorAs(t, err, &app)
	require.Equal(t, string(fault.Unavailable), app.Type())
	require.False(t, app.NonRetryable())
	require.NotZero(t, app.NextRetryDelay(), "retried soon, not by the usual back-off")
}

func TestActivitiesOfARunningWorkerAreNotCanceled(t *testing.T) {
	t.Parallel()
	got, err := runActivity(t, make(chan struct{}), func(context.Context) (string, error) { return "done", nil })
	require.NoError(t, err)
	require.Equal(t, "done", got)

	_, err = runActivity(
		t,
		make(chan struct{}),
		func(context.Context) (string, error) { return "", errors.New("its own") },
	)
	require.ErrorContains(t, err, "its own")
}
