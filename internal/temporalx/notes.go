package temporalx

import (
	"context"

	"go.temporal.io/sdk/activity"
)

// notesKey is the key of the activity's *activityOutbound in its context.
type notesKey struct{}

// Note sets the details of all further heartbeats of the running activity. It sends no heartbeat: the next
// one comes within a third of the heartbeat timeout, and the SDK may delay it by four fifths of the
// timeout. A worker that is killed before it loses the note. Outside of an activity that heartbeats, Note
// does nothing.
func Note(ctx context.Context, details any) {
	if out, ok := ctx.Value(notesKey{}).(*activityOutbound); ok {
		out.note(details)
	}
}

// Noted decodes into details the latest note of earlier attempts of the running activity; false: there is
// none, or it does not decode.
func Noted(ctx context.Context, details any) bool {
	return activity.IsActivity(ctx) && activity.HasHeartbeatDetails(ctx) &&
		activity.GetHeartbeatDetails(ctx, details) == nil
}
