package failure_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/temporalx/failure"
)

// Kind, message and field survive the conversion, and Temporal retries as the table says.
func TestRoundTrip(t *testing.T) {
	t.Parallel()

	for _, err := range []error{
		fault.New(fault.SandboxLost, "sandbox %q is gone", "r.1"),
		fault.Wrap(fault.Unavailable, errors.New("connection refused"), "gateway"),
		fault.Field("upload_files", "outside"),
		fmt.Errorf("step: %w", fault.New(fault.UpstreamRefused, "no such model")),
	} {
		sent := failure.ToTemporal(err)

		var app *temporal.ApplicationError
		require.ErrorAs(t, sent, &app)
		require.Equal(t, !fault.EdgeOf(fault.KindOf(err)).Retryable, app.NonRetryable())

		back := failure.FromTemporal(fmt.Errorf("activity: %w", sent))
		require.Equal(t, fault.KindOf(err), fault.KindOf(back))
		require.Equal(t, err.Error(), back.Error())

		var in, out *fault.Error
		require.ErrorAs(t, err, &in)
		require.ErrorAs(t, back, &out)
		require.Equal(t, in.Field, out.Field)
	}
}

// Final keeps the kind but is not retried. Later is retried, whatever the kind.
func TestFinalAndLater(t *testing.T) {
	t.Parallel()

	var app *temporal.ApplicationError
	require.ErrorAs(t, failure.Final(fault.New(fault.Unavailable, "connection refused")), &app)
	require.True(t, app.NonRetryable())
	require.Equal(t, string(fault.Unavailable), app.Type())
	require.NoError(t, failure.Final(nil))
	require.Equal(t, context.Canceled, failure.Final(context.Canceled), "it was no try")

	later := failure.Later(fault.New(fault.Timeout, "not yet"), time.Minute)
	require.ErrorAs(t, later, &app)
	require.False(t, app.NonRetryable())
	require.Equal(t, time.Minute, app.NextRetryDelay())
	require.Equal(t, temporal.ApplicationErrorCategoryBenign, app.Category())
	require.Equal(t, later, failure.Final(later), "it was no try")
}

func TestFromTemporal(t *testing.T) {
	t.Parallel()

	lost := temporal.NewApplicationError("gone", string(fault.SandboxLost))
	for name, c := range map[string]struct {
		err  error
		want fault.Kind
	}{
		"host gone":          {temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START, nil), fault.Unavailable},
		"worker died":        {temporal.NewHeartbeatTimeoutError(), fault.Unavailable},
		"too slow":           {temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_START_TO_CLOSE, nil), fault.Timeout},
		"retries ran out":    {temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_SCHEDULE_TO_CLOSE, lost), fault.SandboxLost},
		"cancelled":          {temporal.NewCanceledError(), fault.Aborted},
		"a panic":            {temporal.NewApplicationError("boom", "PanicError"), fault.Internal},
		"details not ours":   {temporal.NewApplicationError("x", "Theirs", 7), fault.Internal},
		"not from Temporal":  {errors.New("x"), fault.Internal},
		"a fault of our own": {fault.New(fault.Invalid, "x"), fault.Invalid},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, fault.KindOf(failure.FromTemporal(c.err)))
		})
	}

	require.NoError(t, failure.FromTemporal(nil))
}

// The SDK reports an activity as canceled only by these errors; with a kind it would be a failure.
func TestCancellationPasses(t *testing.T) {
	t.Parallel()
	require.Equal(t, context.Canceled, failure.ToTemporal(fault.Wrap(fault.Unavailable, context.Canceled, "wait")))

	cancelled := temporal.NewCanceledError()
	require.Equal(t, cancelled, failure.ToTemporal(cancelled))
	require.NoError(t, failure.ToTemporal(nil))
}
