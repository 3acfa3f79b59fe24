package session

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
)

// Options of a Set.
type Options struct {
	// maximum of sessions
	Max int
	// Share is the maximum of sessions of one owner; nil: Max.
	Share func(owner string) int
	// Idle is the time without use after which a session made over HTTP ends; 0: never.
	Idle time.Duration
	// Ended is called for every session that has left the set, with its cause, possibly concurrently.
	Ended func(*Session, error)
	// Keeper stores sessions beyond this process; nil: none.
	Keeper Keeper
}

// Set holds the sessions of a server. All transports share its slots.
type Set struct {
	o  Options
	mu sync.Mutex
	m  map[place]*entry
}

// place is where a session is in a set. An id of one client means nothing for another, who may have the same.
type place struct{ owner, id string }

func (s *Session) place() place { return place{s.Owner, s.ID} }

// entry is a session's place in the set.
type entry struct {
	s *Session

	// made by a WebSocket, ends with it
	owned bool

	// closed when the session's WebSocket releases it; nil: none has it
	released chan struct{}

	// closed by a caller while held
	closing bool

	// calls in progress
	busy  int
	timer *time.Timer
}

// NewSet returns an empty set.
func NewSet(o Options) *Set { return &Set{o: o, m: map[place]*entry{}} }

// Len returns the number of sessions.
func (t *Set) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()

	return len(t.m)
}

// Open takes a slot for a new session of owner. If owned, it belongs to a WebSocket and never idles out.
func (t *Set) Open(owner string, owned bool) (*Session, error) {
	s := t.newSession(owner, uuid.NewString())
	// a WebSocket's session is stored only after its first change
	s.dirty = !owned

	t.mu.Lock()
	defer t.mu.Unlock()

	if err := t.addSession(s, owned); err != nil {
		return nil, err
	}

	return s, nil
}

func (t *Set) newSession(owner, id string) *Session {
	s := newSession(id)
	s.Owner, s.keeper = owner, t.o.Keeper

	return s
}

// Use returns a session for one call; done must be called after it.
func (t *Set) Use(ctx context.Context, owner, id string) (s *Session, done func(), err error) {
	if _, err := t.find(ctx, owner, id, false); err != nil {
		return nil, nil, err
	}

	if err := t.refresh(ctx, owner, id); err != nil {
		return nil, nil, err
	}

	t.mu.Lock()

	e := t.m[place{owner, id}]
	if e == nil {
		t.mu.Unlock()
		return nil, nil, &UnknownError{id}
	}

	e.busy++
	t.mu.Unlock()

	t.claim(ctx, e.s)

	return e.s, func() {
		t.mu.Lock()
		defer t.mu.Unlock()

		e.busy--
		t.rearm(e)
	}, nil
}

// expire ends an idle session; it checks one in use again later.
func (t *Set) expire(e *entry) {
	t.mu.Lock()

	inUse := e.busy > 0 || e.released != nil
	if inUse {
		t.rearm(e)
	}

	gone := !inUse && t.remove(e)
	t.mu.Unlock()

	if gone {
		t.closeSession(e, fmt.Errorf("%w: unused for %v", ErrClosed, t.o.Idle))
	}
}

// rearm restarts a session's idle time; t.mu is held.
func (t *Set) rearm(e *entry) {
	if e.timer != nil && t.m[e.s.place()] == e {
		e.timer.Reset(t.o.Idle)
	}
}

// remove removes a session and reports whether it was in the set; t.mu is held. The caller calls ended after unlocking.
func (t *Set) remove(e *entry) bool {
	there := t.m[e.s.place()] == e
	delete(t.m, e.s.place())

	if e.timer != nil {
		e.timer.Stop()
	}

	return there
}

func (t *Set) closeSession(e *entry, cause error) {
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
		t.closeSession(e, cause)
	}
}
