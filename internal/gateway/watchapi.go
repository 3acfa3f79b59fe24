package gateway

import "github.com/rolloutd/rolloutd/internal/fault"

// WatchPath is where a client watches routes: it sends lines of WatchCommand as the body of a request, which it does not end, and reads lines of
// WatchChange as the answer. One such request carries all routes of a client.
const WatchPath = "/watch"

// MaxWatchCommand bounds a WatchCommand, in bytes.
const MaxWatchCommand = 1 << 10

// maxWatchChange bounds a WatchChange, in bytes.
const maxWatchChange = 1 << 20

// WatchCommand begins or ends a watch.
type WatchCommand struct {
	Watch   uint64 `json:"watch"`              // the client's name for it
	Route   string `json:"route,omitempty"`    // whose status to send now and at each change; "": the watch ends
	Since   int64  `json:"since,omitempty"`    // version of the status that the client has
	PauseMS int64  `json:"pause_ms,omitempty"` // after a change that was sent, until the next one is
}

// WatchChange is what came of a watch: a status, or the failure that ended it.
type WatchChange struct {
	Watch   uint64       `json:"watch"`
	Status  *RouteStatus `json:"status,omitempty"`
	Failure *FailureBody `json:"failure,omitempty"`
}

// FailedWatch ends a watch.
func FailedWatch(watch uint64, err error) WatchChange {
	return WatchChange{Watch: watch, Failure: &FailureBody{Kind: fault.KindOf(err), Message: err.Error()}}
}
