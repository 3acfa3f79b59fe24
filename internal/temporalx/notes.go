package temporalx

import (
	"context"

	"go.temporal.io/sdk/activity"
)

// notesKey is the key of the activity's *activityOutbound in its context.
type notesKey struct{}

// Note has all further heartbeats of the running activity carry the details. It sends none itself: a worker that is killed before the next
// heartbeat, which comes within a third of the heartbeat timeout and which the SDK may put off by four fifths of it, loses the note. Outside of an
// activity that heartbeats it does nothing.
func Note(ctx context.Context, details any) {
	if out, ok := ctx.Value(notesKey{}).(*activityOutbound); ok {
		out.note(details)
	}
}

// Noted reads into details what earlier attempts of the running activity noted last; false: nothing that decodes.
func Noted(ctx context.Context, details any) bool {
	return activity.IsActivity(ctx) && activity.HasHeartbeatDetails(ctx) && activity.GetHeartbeatDetails(ctx, details) == nil
}
