package session

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// Options of a Set.
type Options struct {
	Max int // how many sessions at once
	// Idle ends a session made over HTTP that nobody used for so long; 0 never does.
	Idle time.Duration
	// Ended is told of every session that has left the set, with its cause; sessions may end at the same time.
	Ended func(*Session, error)
}

// Set is the sessions of a server. Slots are shared by all transports.
type Set struct {
	o  Options
	mu sync.Mutex
	m  map[string]*entry
}

// entry is a session's place in the set.
type entry struct {
	s       *Session
	owned   bool          // made by a WebSocket, ends with it
	held    chan struct{} // closed when the attached WebSocket lets go; nil: none is attached
	closing bool          // was asked to close while held
	busy    int           // calls under way
	timer   *time.Timer
}

// NewSet makes an empty set.
func NewSet(o Options) *Set { return &Set{o: o, m: map[string]*entry{}} }

// Len is how many sessions there are.
func (t *Set) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.m)
}

// Open takes a slot for a new session. With owned set it belongs to a WebSocket and never idles out.
func (t *Set) Open(owned bool) (*Session, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.m) >= t.o.Max {
		return nil, &CapacityError{Active: len(t.m), Max: t.o.Max}
	}
	e := &entry{s: newSession(), owned: owned}
	t.m[e.s.ID] = e
	if !owned && t.o.Idle > 0 {
		e.timer = time.AfterFunc(t.o.Idle, func() { t.expire(e) })
	}
	return e.s, nil
}

// Use returns a session for one call; done must be called after it.
func (t *Set) Use(id string) (s *Session, done func(), err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.m[id]
	if e == nil {
		return nil, nil, &UnknownError{id}
	}
	e.busy++
	return e.s, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		e.busy--
		t.rearm(e)
	}, nil
}

// expire ends an idle session; one that is in use is looked at again later.
func (t *Set) expire(e *entry) {
	t.mu.Lock()
	inUse := e.busy > 0 || e.held != nil
	if inUse {
		t.rearm(e)
	}
	gone := !inUse && t.remove(e)
	t.mu.Unlock()
	if gone {
		t.ended(e, fmt.Errorf("%w: unused for %v", ErrClosed, t.o.Idle))
	}
}

// rearm gives a session its whole idle time again; t.mu is held.
func (t *Set) rearm(e *entry) {
	if e.timer != nil && t.m[e.s.ID] == e {
		e.timer.Reset(t.o.Idle)
	}
}

// remove takes a session out of the set and says whether it was there; t.mu is held. The caller calls ended after unlocking.
func (t *Set) remove(e *entry) bool {
	there := t.m[e.s.ID] == e
	delete(t.m, e.s.ID)
	if e.timer != nil {
		e.timer.Stop()
	}
	return there
}

func (t *Set) ended(e *entry, cause error) {
	e.s.Close(cause)
	t.o.Ended(e.s, cause)
}

// CloseAll ends every session.
func (t *Set) CloseAll(cause error) {
	t.mu.Lock()
	all := slices.Collect(maps.Values(t.m))
	for _, e := range all {
		t.remove(e)
	}
	t.mu.Unlock()
	for _, e := range all {
		t.ended(e, cause)
	}
}
