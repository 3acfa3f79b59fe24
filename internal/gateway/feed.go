package gateway

import (
	"context"
	"sync"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
)

// maxWatches bounds the watches of a Feed.
const maxWatches = 1 << 14

// Routes are the routes of a gateway.
type Routes interface {
	// Watched returns a route's version and a function that returns its status until the route is closed;
	// fault.NotFound: no such route.
	Watched(id string) (*FeedVersion, func() (gatewayapi.RouteStatus, error), error)
}

// Feed reports the changes of several routes to one reader. Add and Remove may be called during Next.
//
// A route only marks its watches; its status is read when the reader takes it. So a slow reader gets the latest
// status of each route, and a Feed's memory is bounded by its number of watches. It is idle while no route changes.
type Feed struct {
	routes Routes

	// has an element after a mark
	wake chan struct{}

	mu      sync.Mutex
	watches map[uint64]*watch

	// watches whose route has changed, in the order of the changes
	marked []*watch
}

// watch is the watch of one route.
type watch struct {
	feed *Feed
	key  uint64

	// nil: no such route
	version *FeedVersion

	// the route's status, or the error why there is none
	status func() (gatewayapi.RouteStatus, error)

	// least time between two reported changes
	pause time.Duration

	// the version that the reader has
	knownVersion int64
	// Guarded by the feed's lock.
	marked bool

	// time of the earliest next report
	next time.Time
}

// NewFeed returns a Feed without watches.
func NewFeed(r Routes) *Feed {
	return &Feed{routes: r, wake: make(chan struct{}, 1), watches: map[uint64]*watch{}}
}

// Add starts a watch under an unused key. The reader already has the status of version since. After a
// change there is none for the time of pause. A route that does not exist is reported as a change.
func (f *Feed) Add(key uint64, id string, since int64, pause time.Duration) error {
	w := &watch{feed: f, key: key, knownVersion: since, pause: pause}

	var missing error
	if w.version, w.status, missing = f.routes.Watched(id); missing != nil {
		w.status = func() (gatewayapi.RouteStatus, error) { return gatewayapi.RouteStatus{}, missing }
	}

	if err := f.add(w); err != nil {
		return err
	}

	if w.version == nil {
		f.markChanged(w)
		return nil
	}

	w.version.add(w)

	return nil
}

func (f *Feed) add(w *watch) error {
	f.mu.Lock()
	defer f.mu.Unlock()

	if _, ok := f.watches[w.key]; ok {
		return fault.New(fault.Conflict, "watch %d exists", w.key)
	}

	if len(f.watches) == maxWatches {
		return fault.New(fault.Exhausted, "more than %d watches", maxWatches)
	}

	f.watches[w.key] = w

	return nil
}

// Remove ends a watch. It is a no-op for an ended watch.
func (f *Feed) Remove(key uint64) {
	f.mu.Lock()
	w, ok := f.watches[key]
	delete(f.watches, key)
	f.mu.Unlock()

	if ok {
		w.end()
	}
}

// Close ends all watches.
func (f *Feed) Close() {
	f.mu.Lock()
	all := f.watches
	f.watches = map[uint64]*watch{}
	f.mu.Unlock()

	for _, w := range all {
		w.end()
	}
}

func (w *watch) end() {
	if w.version != nil {
		w.version.remove(w)
	}
}

// markChanged records a change of the watch's route.
func (f *Feed) markChanged(w *watch) {
	f.mu.Lock()
	defer f.mu.Unlock()

	if w.marked {
		return
	}

	w.marked = true

	f.marked = append(f.marked, w)
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// Next waits for changes and returns them. A closed route ends its watch with a change that says so. Next
// fails when ctx ends.
func (f *Feed) Next(ctx context.Context) ([]gatewayapi.WatchChange, error) {
	for {
		ready, next := f.takeReady(time.Now())
		if changes := f.changes(ready); len(changes) > 0 {
			return changes, nil
		}

		if err := f.wait(ctx, next); err != nil {
			return nil, err
		}
	}
}

// takeReady removes the marked watches that may report a change now. next is the time of the next report among
// the others; zero: no others.
func (f *Feed) takeReady(now time.Time) (ready []*watch, next time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()

	later := f.marked[:0]
	for _, w := range f.marked {
		switch {
		case f.watches[w.key] != w: // removed
		case w.next.After(now):
			later = append(later, w)
			if next.IsZero() || w.next.Before(next) {
				next = w.next
			}
		default:
			w.marked, w.next = false, now.Add(w.pause)
			ready = append(ready, w)
		}
	}

	clear(f.marked[len(later):])
	f.marked = later

	return ready, next
}

// changes returns the statuses that the reader does not have.
func (f *Feed) changes(ready []*watch) []gatewayapi.WatchChange {
	var changes []gatewayapi.WatchChange

	for _, w := range ready {
		s, err := w.status()
		switch {
		case err != nil:
			f.Remove(w.key)
			changes = append(changes, gatewayapi.FailedWatch(w.key, err))
		case s.Version != w.knownVersion:
			w.knownVersion = s.Version
			changes = append(changes, gatewayapi.WatchChange{Watch: w.key, Status: &s})
		}
	}

	return changes
}

// wait waits for a mark, at most until next.
func (f *Feed) wait(ctx context.Context, next time.Time) error {
	var due <-chan time.Time

	if !next.IsZero() {
		timer := time.NewTimer(time.Until(next))
		defer timer.Stop()

		due = timer.C
	}

	select {
	case <-f.wake:
		return nil
	case <-due:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
