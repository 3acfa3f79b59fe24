// Package failure translates between error kinds and Temporal's errors. It does no I/O, so workflow code may use it.
package failure

import (
	"context"
	"errors"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// restartDelay is the delay before an activity runs again after its worker stopped.
const restartDelay = 200 * time.Millisecond

// ToTemporal converts err to the error that an activity returns: an application error whose type is err's
// kind and whose kind decides on retries. Temporal's own errors and cancellation pass unchanged.
func ToTemporal(err error) error { return toTemporal(err, false) }

// Final converts like ToTemporal, but Temporal does not retry the error, whatever its kind.
func Final(err error) error { return toTemporal(err, true) }

func toTemporal(err error, final bool) error {
	var (
		app       *temporal.ApplicationError
		cancelled *temporal.CanceledError
		timeout   *temporal.TimeoutError
	)
	switch {
	case err == nil, errors.As(err, &app), errors.As(err, &cancelled), errors.As(err, &timeout):
		return err
	case errors.Is(err, context.Canceled):
		// The SDK reports a cancellation only for this error itself, not for one that wraps it.
		return context.Canceled
	}

	kind := fault.KindOf(err)
	options := temporal.ApplicationErrorOptions{NonRetryable: final || !fault.EdgeOf(kind).Retryable}

	var f *fault.Error
	if errors.As(err, &f) && f.Field != "" {
		options.Details = []any{f.Field}
	}

	return temporal.NewApplicationErrorWithOptions(err.Error(), string(kind), options)
}

// Later returns the error of an activity that has not failed but runs again after the delay, on any worker
// of its queue; err is the reason. The error is benign: it raises no alarm.
func Later(err error, delay time.Duration) error {
	return temporal.NewApplicationErrorWithOptions(
		err.Error(),
		string(fault.KindOf(err)),
		temporal.ApplicationErrorOptions{
			NextRetryDelay: delay, Category: temporal.ApplicationErrorCategoryBenign,
		},
	)
}

// Restarting returns the error of an activity whose worker stops or was killed. Temporal retries it at once.
func Restarting() error {
	return Later(fault.New(fault.Unavailable, "the worker stopped"), restartDelay)
}

// FromTemporal converts an error from Temporal to a fault. The innermost application error decides: it has
// the last attempt's reason, in contrast to a timeout that ended the retries.
func FromTemporal(err error) error {
	var (
		app        *temporal.ApplicationError
		timeout    *temporal.TimeoutError
		cancelled  *temporal.CanceledError
		terminated *temporal.TerminatedError
	)
	switch {
	case err == nil:
		return nil
	case errors.As(err, &app):
		return fromApplication(app)
	case errors.As(err, &timeout):
		return fault.Wrap(timeoutKind(timeout.TimeoutType()), err, "%s", timeoutText(timeout.TimeoutType()))
	case errors.As(err, &cancelled):
		return fault.Wrap(fault.Aborted, err, "cancelled")
	case errors.As(err, &terminated):
		return fault.Wrap(fault.Aborted, err, "terminated")
	}

	return fault.Wrap(fault.KindOf(err), err, "")
}

func fromApplication(app *temporal.ApplicationError) error {
	f := &fault.Error{Kind: fault.Kind(app.Type()), Msg: app.Message()}
	if !f.Kind.Known() {
		// a panic, or an error of another program
		f.Kind = fault.Internal
		return f
	}

	if app.HasDetails() {
		// the message names the field as well
		_ = app.Details(&f.Field)
	}

	return f
}

// timeoutKind distinguishes an absent worker (no start, no heartbeat) from work that took too long.
func timeoutKind(t enumspb.TimeoutType) fault.Kind {
	switch t {
	case enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START, enumspb.TIMEOUT_TYPE_HEARTBEAT:
		return fault.Unavailable
	default:
		return fault.Timeout
	}
}

func timeoutText(t enumspb.TimeoutType) string {
	switch t {
	case enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START:
		return "no worker took the step in time"
	case enumspb.TIMEOUT_TYPE_HEARTBEAT:
		return "the worker stopped sending heartbeats"
	default:
		return "the step took too long"
	}
}
