package gatewayapi

import "github.com/rolloutd/rolloutd/internal/fault"

// WatchPath is the path for watching routes. A client sends lines of WatchCommand in a request body that
// stays open, and reads lines of WatchChange from the response. One request carries all watches of a
// client.
const WatchPath = "/watch"

// MaxWatchCommand bounds a WatchCommand, in bytes.
const MaxWatchCommand = 1 << 10

// maxWatchChange bounds a WatchChange, in bytes.
const maxWatchChange = 1 << 20

// WatchCommand starts or ends a watch.
type WatchCommand struct {
	// the client's key of the watch
	Watch uint64 `json:"watch"`

	// the route to watch; "": the watch ends
	Route string `json:"route,omitempty"`

	// version of the status that the client has
	Since int64 `json:"since,omitempty"`

	// least time between two changes
	PauseMS int64 `json:"pause_ms,omitempty"`
}

// WatchChange is a status of a watched route, or the failure that ended the watch.
type WatchChange struct {
	Watch   uint64       `json:"watch"`
	Status  *RouteStatus `json:"status,omitempty"`
	Failure *FailureBody `json:"failure,omitempty"`
}

// FailedWatch returns the change that ends a watch.
func FailedWatch(watch uint64, err error) WatchChange {
	return WatchChange{Watch: watch, Failure: &FailureBody{Kind: fault.KindOf(err), Message: err.Error()}}
}
