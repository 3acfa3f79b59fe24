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

// restartDelay is how soon an activity that its worker's end cut short may run again.
const restartDelay = 200 * time.Millisecond

// ToTemporal makes err what an activity should return: an application error whose type is err's kind, retryable as the kind's
// edge says. Temporal's own errors and cancellation pass unchanged.
func ToTemporal(err error) error { return toTemporal(err, false) }

// Final is ToTemporal of an error after which the activity must not run again, whatever its kind.
func Final(err error) error { return toTemporal(err, true) }

func toTemporal(err error, final bool) error {
	var app *temporal.ApplicationError
	var cancelled *temporal.CanceledError
	var timeout *temporal.TimeoutError
	switch {
	case err == nil, errors.As(err, &app), errors.As(err, &cancelled), errors.As(err, &timeout):
		return err
	case errors.Is(err, context.Canceled):
		// The SDK reports a cancellation only when it finds this very error; elsewhere in the chain it stands for one too.
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

// Later is what an activity returns that has not failed but is to run again after the delay, on whoever takes it; err is why. It is
// benign: nothing that anyone should be alarmed of.
func Later(err error, delay time.Duration) error {
	return temporal.NewApplicationErrorWithOptions(err.Error(), string(fault.KindOf(err)), temporal.ApplicationErrorOptions{
		NextRetryDelay: delay, Category: temporal.ApplicationErrorCategoryBenign,
	})
}

// Restarting is what an activity returns when its worker stops, or is said to have returned when its worker was killed: try
// again at once.
func Restarting() error {
	return Later(fault.New(fault.Unavailable, "the worker stopped"), restartDelay)
}

// FromTemporal makes a fault of what a workflow or a client got from Temporal. The innermost application error decides: a
// timeout that ended a row of retries says less than what the last try said.
func FromTemporal(err error) error {
	var app *temporal.ApplicationError
	var timeout *temporal.TimeoutError
	var cancelled *temporal.CanceledError
	var terminated *temporal.TerminatedError
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
		f.Kind = fault.Internal // a panic, or an error that no activity of ours made; its details are of any shape
		return f
	}
	if app.HasDetails() {
		_ = app.Details(&f.Field) // without it the message still names the field
	}
	return f
}

// timeoutKind: nobody there to do the work, or to go on with it, is another matter than work that took too long.
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
		return "the worker went away"
	default:
		return "the step took too long"
	}
}
