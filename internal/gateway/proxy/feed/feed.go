// Package feed gives the changes of several routes to one reader.
//
// A route only marks what has changed; its status is read when the reader takes it. A slow reader therefore gets the latest status of each
// route, and the memory of a Feed is bounded by the number of its watches. While no route changes a Feed does nothing.
package feed

import (
	"context"
	"sync"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway"
)

// maxWatches bounds the watches of a Feed.
const maxWatches = 1 << 14

// Routes are the routes of a gateway.
type Routes interface {
	// Watched is a route's version and a function that gives its status until the route is closed; fault.NotFound when there is none.
	Watched(id string) (*Version, func() (gateway.RouteStatus, error), error)
}

// Feed is for one reader. Add and Remove may run beside Next.
type Feed struct {
	routes Routes
	wake   chan struct{} // full when something was marked

	mu      sync.Mutex
	watches map[uint64]*watch
	marked  []*watch // in the order of their changes
}

// watch is the watch of one route.
type watch struct {
	feed    *Feed
	key     uint64
	version *Version                            // nil: there is no such route
	status  func() (gateway.RouteStatus, error) // of the route, or why there is none
	pause   time.Duration                       // between two changes that are given
	known   int64                               // version that the reader has
	// The lock of the feed guards these.
	marked bool
	next   time.Time // when a change may be given
}

// New makes a Feed without watches.
func New(r Routes) *Feed {
	return &Feed{routes: r, wake: make(chan struct{}, 1), watches: map[uint64]*watch{}}
}

// Add begins a watch under a key that no other watch has. A status of version since is known to the reader; after a change there is none for
// pause. A route that does not exist is a change.
func (f *Feed) Add(key uint64, id string, since int64, pause time.Duration) error {
	w := &watch{feed: f, key: key, known: since, pause: pause}
	var missing error
	if w.version, w.status, missing = f.routes.Watched(id); missing != nil {
		w.status = func() (gateway.RouteStatus, error) { return gateway.RouteStatus{}, missing }
	}
	if err := f.add(w); err != nil {
		return err
	}
	if w.version == nil {
		f.mark(w)
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

// Remove ends a watch; of one that is over it is a no-op.
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

// mark notes a change of the watch's route.
func (f *Feed) mark(w *watch) {
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

// Next waits for changes and returns them. A watch whose route was closed ends with a change that says so. Next fails once ctx ends.
func (f *Feed) Next(ctx context.Context) ([]gateway.WatchChange, error) {
	for {
		ready, next := f.take(time.Now())
		if changes := f.changes(ready); len(changes) > 0 {
			return changes, nil
		}
		if err := f.wait(ctx, next); err != nil {
			return nil, err
		}
	}
}

// take removes the marked watches that may give a change now. next is when the first of the others may; the zero time: there are no others.
func (f *Feed) take(now time.Time) (ready []*watch, next time.Time) {
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

// changes are the statuses of watches that the reader does not have.
func (f *Feed) changes(ready []*watch) []gateway.WatchChange {
	var changes []gateway.WatchChange
	for _, w := range ready {
		s, err := w.status()
		switch {
		case err != nil:
			f.Remove(w.key)
			changes = append(changes, gateway.FailedWatch(w.key, err))
		case s.Version != w.known:
			w.known = s.Version
			changes = append(changes, gateway.WatchChange{Watch: w.key, Status: &s})
		}
	}
	return changes
}

// wait waits for a mark, or until next.
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
