package gateway

import (
	"slices"
	"sync"
	"time"
)

// FeedVersion counts the changes of a route's status and marks the route's watches. It is safe for concurrent use.
type FeedVersion struct {
	mu      sync.Mutex
	current int64
	watches []*watch
}

// NewFeedVersion starts at the current time in nanoseconds, so that no version from before a restart is valid after it.
func NewFeedVersion() *FeedVersion { return &FeedVersion{current: time.Now().UnixNano()} }

// Current returns the version of the status.
func (v *FeedVersion) Current() int64 {
	v.mu.Lock()
	defer v.mu.Unlock()

	return v.current
}

// Note records a change.
func (v *FeedVersion) Note() {
	v.mu.Lock()
	defer v.mu.Unlock()

	v.current++
	for _, w := range v.watches {
		w.feed.markChanged(w)
	}
}

// add adds a watch and marks it if it does not have the current status.
func (v *FeedVersion) add(w *watch) {
	v.mu.Lock()
	defer v.mu.Unlock()

	v.watches = append(v.watches, w)
	if v.current != w.knownVersion {
		w.feed.markChanged(w)
	}
}

func (v *FeedVersion) remove(w *watch) {
	v.mu.Lock()
	defer v.mu.Unlock()

	v.watches = slices.DeleteFunc(v.watches, func(other *watch) bool { return other == w })
}
