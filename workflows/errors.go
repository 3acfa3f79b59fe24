package workflows

import (
	"errors"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"

	"github.com/rolloutd/rolloutd/internal/temporalx/failure"
)

// isScheduleToStartTimeout reports whether no worker started the activity in time.
func isScheduleToStartTimeout(err error) bool {
	var timeout *temporal.TimeoutError
	return errors.As(err, &timeout) && timeout.TimeoutType() == enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START
}

// asFault is the error of an activity with its kind.
func asFault(err error) error { return failure.FromTemporal(err) }
