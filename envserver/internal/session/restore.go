package session

import (
	"context"
	"errors"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// find loads the session of an id into the set if this process does not have it: after its connection was
// lost, on another replica, after a restart. It returns a restored session, which takes a slot like any
// other, whether a WebSocket owns it or not.
func (t *Set) find(ctx context.Context, owner, id string, owned bool) (restored *Session, err error) {
	t.mu.Lock()
	e := t.m[place{owner, id}]
	t.mu.Unlock()

	if e != nil {
		return nil, nil
	}

	r, err := load(ctx, t.o.Keeper, owner, id)
	if err != nil {
		return nil, err
	}

	s := t.newSession(owner, id)
	s.follow(r)

	t.mu.Lock()
	defer t.mu.Unlock()
	// another caller was faster
	if t.m[s.place()] != nil {
		return nil, nil
	}

	if err := t.addSession(s, owned); err != nil {
		return nil, err
	}

	return s, nil
}

// refresh loads changes that another replica has stored, for a session without a WebSocket: with one, this
// process has the latest state. A session that was closed elsewhere ends here too.
func (t *Set) refresh(ctx context.Context, owner, id string) error {
	t.mu.Lock()
	e := t.m[place{owner, id}]
	t.mu.Unlock()

	if t.o.Keeper == nil || e == nil || t.heldOrOwned(e) {
		return nil
	}
	// before the load: the first save may end meanwhile
	stored := e.s.isStored()
	r, err := load(ctx, t.o.Keeper, owner, id)

	var unknown *UnknownError
	if errors.As(err, &unknown) && stored {
		t.dropSession(e)
		return err
	}

	if err == nil {
		e.s.catchUp(r)
	}
	// the store does not answer: use the present state
	return nil
}

func (t *Set) heldOrOwned(e *entry) bool {
	t.mu.Lock()
	defer t.mu.Unlock()

	return e.owned || e.released != nil
}

// dropSession ends a session that was closed on another replica.
func (t *Set) dropSession(e *entry) {
	t.mu.Lock()
	gone := t.remove(e)
	t.mu.Unlock()

	if gone {
		t.closeSession(e, ErrClosed)
	}
}

func (s *Session) isStored() bool {
	s.mu.Lock()
	defer s.mu.Unlock()

	return s.stored
}

func (s *Session) catchUp(r record) {
	s.mu.Lock()
	defer s.mu.Unlock()

	if r.Version > s.version && !s.dirty {
		s.follow(r)
	}
}

// follow takes the state that another replica has saved; s.mu is held.
func (s *Session) follow(r record) {
	s.adopt(r)
	s.dirty, s.stored, s.savedAt, s.keptEpisode = false, true, time.Time{}, r.State.EpisodeID
}

// UnknownEpisodeError means that no session of the client is in the episode.
type UnknownEpisodeError struct{ ID string }

func (e *UnknownEpisodeError) Error() string { return "Unknown episode_id: " + e.ID }

// Rejoin lets s continue an episode of another session of the same owner, whose connection was lost, here
// or on another replica. The rollouts that would end with that session now end with s.
func (t *Set) Rejoin(ctx context.Context, s *Session, episode string) error {
	id, err := latest(ctx, t.o.Keeper, s.Owner, episode)
	if s.has(episode) && (id == "" || id == s.ID) {
		return nil
	}
	// its connection is here; the store may not answer, or not know of it yet
	if old := t.inEpisode(s.Owner, episode, id); old != nil {
		s.takeOver(old.handOver())
		return nil
	}

	if err != nil {
		return err
	}

	r, err := load(ctx, t.o.Keeper, s.Owner, id)

	var unknown *UnknownError
	if errors.As(err, &unknown) || err == nil && r.State.EpisodeID != episode {
		return &UnknownEpisodeError{episode}
	}

	if err != nil {
		return err
	}

	if err := t.giveUp(ctx, s.Owner, r); err != nil {
		return err
	}

	s.takeOver(r)

	return nil
}

// giveUp stores that the rollouts of a session end with another one: the replica that has its connection does
// not end them.
func (t *Set) giveUp(ctx context.Context, owner string, r record) error {
	if len(r.Watched) == 0 {
		return nil
	}

	ctx, cancel := context.WithTimeout(ctx, keepTimeout)
	defer cancel()

	r.Version++
	r.Watched = nil

	return fault.Wrap(fault.Unavailable, save(ctx, t.o.Keeper, owner, r), "take over session %s", r.ID)
}

// inEpisode returns the session of that id, or any if it is "", that has the episode; nil: none in this process.
func (t *Set) inEpisode(owner, episode, id string) *Session {
	t.mu.Lock()
	defer t.mu.Unlock()

	for _, e := range t.m {
		if e.s.Owner == owner && (id == "" || e.s.ID == id) && e.s.has(episode) {
			return e.s
		}
	}

	return nil
}

// has reports whether the session is in an episode that no other has taken over.
func (s *Session) has(episode string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()

	return s.state.EpisodeID == episode && !s.yielded
}

// handOver returns the session's record with the rollouts that would end with it, and gives both up.
func (s *Session) handOver() record {
	s.mu.Lock()
	defer s.mu.Unlock()

	r := s.snapshot()
	clear(s.watched)
	s.yielded = true
	s.changed()

	return r
}

func (s *Session) takeOver(r record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// its own record's, which goes on
	r.Version = s.version
	s.adopt(r)
	// which another session was the last to join
	s.keptEpisode = ""
	s.changed()
}

// Begin takes a slot for a session under the client's own id, or returns the session with that id.
func (t *Set) Begin(ctx context.Context, owner, id string) error {
	_, err := t.find(ctx, owner, id, false)

	var unknown *UnknownError
	if !errors.As(err, &unknown) {
		return err
	}

	t.mu.Lock()
	defer t.mu.Unlock()
	// another call was faster
	if t.m[place{owner, id}] != nil {
		return nil
	}

	return t.addSession(t.newSession(owner, id), false)
}

// addSession puts a session into the set; t.mu is held.
func (t *Set) addSession(s *Session, owned bool) error {
	if len(t.m) >= t.o.Max {
		return &CapacityError{Active: len(t.m), Max: t.o.Max}
	}

	if err := t.checkShare(s.Owner); err != nil {
		return err
	}

	e := &entry{s: s, owned: owned}

	t.m[s.place()] = e
	if owned {
		e.released = make(chan struct{})
	}

	if !owned && t.o.Idle > 0 {
		e.timer = time.AfterFunc(t.o.Idle, func() { t.expire(e) })
	}

	return nil
}

// checkShare refuses a further session of an owner that has its share of them, so that one client cannot
// take the sessions of all. t.mu is held.
func (t *Set) checkShare(owner string) error {
	if t.o.Share == nil {
		return nil
	}

	share, active := t.o.Share(owner), 0
	for _, e := range t.m {
		if e.s.Owner == owner {
			active++
		}
	}

	if active < share {
		return nil
	}

	return &CapacityError{Active: active, Max: share, Of: t.o.Max}
}
