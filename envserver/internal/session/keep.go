package session

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// Keeper keeps sessions beyond this process, for all replicas alike. Keys are safe file names.
type Keeper interface {
	// Load returns what was saved under key last; fault.NotFound when nothing is there.
	Load(ctx context.Context, key string) ([]byte, error)
	Save(ctx context.Context, key string, data []byte) error
	// Delete forgets a key; one that is not there is no error.
	Delete(ctx context.Context, key string) error
}

// nameAgain is how long an episode's record stays as it is while its session goes on changing: records that are not written for
// long are taken for forgotten ones, and deleted.
const nameAgain = time.Hour

// keepTimeout bounds one access to the Keeper: a session is worth less than the step that waits for it.
const keepTimeout = 10 * time.Second

// record is a session as it is kept. Field names are a stored format.
type record struct {
	ID      string   `json:"id"`
	Version int      `json:"version"` // grows with every change that is kept
	State   State    `json:"state"`
	Counted []string `json:"counted,omitempty"`
	Watched []string `json:"watched,omitempty"`
	Playing *Playing `json:"playing,omitempty"`
}

// sessionKey and episodeKey hold the owner, so that an id is of no use to another client, and are hashes, so that an id may
// be any text.
func sessionKey(owner, id string) string { return "session-" + digest(owner, id) }
func episodeKey(owner, id string) string { return "episode-" + digest(owner, id) }

func digest(owner, id string) string {
	sum := sha256.Sum256([]byte(owner + "\x00" + id))
	return hex.EncodeToString(sum[:])
}

// snapshot is the session as it would be kept; s.mu is held.
func (s *Session) snapshot() record {
	return record{ID: s.ID, Version: s.version, State: s.state.clone(),
		Counted: slices.Sorted(maps.Keys(s.counted)), Watched: slices.Sorted(maps.Keys(s.watched)), Playing: s.playing}
}

// adopt makes the session what the record says; s.mu is held.
func (s *Session) adopt(r record) {
	s.state, s.version, s.counted, s.watched, s.playing = r.State, r.Version, set(r.Counted), set(r.Watched), r.Playing
	s.yielded = false
	s.changes++
}

func set(keys []string) map[string]bool {
	m := make(map[string]bool, len(keys))
	for _, k := range keys {
		m[k] = true
	}
	return m
}

// Keep saves the session if it has changed since it was kept last. Episodes name the session that began or joined them last.
func (s *Session) Keep(ctx context.Context) error {
	if s.keeper == nil {
		return nil
	}
	s.keeping.Lock() // one at a time, so that an older state never overwrites a newer one
	defer s.keeping.Unlock()
	s.mu.Lock()
	dirty, episode := s.dirty && !s.forgotten, s.state.EpisodeID
	name := !s.yielded && (episode != s.keptEpisode || time.Since(s.named) > nameAgain)
	if dirty {
		s.version++
	}
	s.dirty = false
	r := s.snapshot()
	s.mu.Unlock()
	if !dirty {
		return nil
	}
	err := s.save(ctx, r, name)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.dirty = true
		return err
	}
	if name {
		s.keptEpisode, s.named = episode, time.Now()
	}
	return nil
}

func (s *Session) save(ctx context.Context, r record, name bool) error {
	data, err := json.Marshal(r)
	if err != nil {
		return fault.Wrap(fault.Internal, err, "write session %s", s.ID)
	}
	// The caller's context may have ended with its client; what happened is kept all the same.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepTimeout)
	defer cancel()
	if err := s.keeper.Save(ctx, sessionKey(s.Owner, s.ID), data); err != nil || !name {
		return err
	}
	return s.keeper.Save(ctx, episodeKey(s.Owner, r.State.EpisodeID), []byte(s.ID))
}

// forget deletes what is kept of a session that was closed for good. A call that is still under way keeps nothing of it any more.
func (s *Session) forget(ctx context.Context) error {
	if s.keeper == nil {
		return nil
	}
	s.keeping.Lock()
	defer s.keeping.Unlock()
	s.mu.Lock()
	s.forgotten = true
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepTimeout)
	defer cancel()
	err := s.keeper.Delete(ctx, sessionKey(s.Owner, s.ID))
	if s.Holds(ctx) {
		err = errors.Join(err, s.keeper.Delete(ctx, episodeKey(s.Owner, s.State().EpisodeID)))
	}
	return err
}

// Holds says whether no other session, of any replica, has joined the episode since this one began or joined it.
func (s *Session) Holds(ctx context.Context) bool {
	episode := s.State().EpisodeID
	if !s.has(episode) {
		return false
	}
	id, err := latest(ctx, s.keeper, s.Owner, episode)
	return err != nil || id == s.ID
}

// latest is the id of the session that was the last to begin or to join an episode, as it is kept.
func latest(ctx context.Context, k Keeper, owner, episode string) (id string, err error) {
	if k == nil {
		return "", &UnknownEpisodeError{episode}
	}
	ctx, cancel := context.WithTimeout(ctx, keepTimeout)
	defer cancel()
	kept, err := k.Load(ctx, episodeKey(owner, episode))
	switch {
	case fault.Is(err, fault.NotFound):
		return "", &UnknownEpisodeError{episode}
	case err != nil:
		return "", fault.Wrap(fault.KindOf(err), err, "look for episode %s", episode)
	}
	return string(kept), nil
}

// load reads what is kept of a session; an UnknownError when nothing is.
func (t *Set) load(ctx context.Context, owner, id string) (record, error) {
	if t.o.Keeper == nil {
		return record{}, &UnknownError{id}
	}
	ctx, cancel := context.WithTimeout(ctx, keepTimeout)
	defer cancel()
	var r record
	data, err := t.o.Keeper.Load(ctx, sessionKey(owner, id))
	switch {
	case fault.Is(err, fault.NotFound):
		return r, &UnknownError{id}
	case err != nil:
		return r, fault.Wrap(fault.KindOf(err), err, "look for session %s", id)
	}
	return read(data, id)
}

// read decodes what is kept of a session. Other bytes in its place are an error, so that no client continues in a session that never
// existed.
func read(data []byte, id string) (r record, err error) {
	if err := json.Unmarshal(data, &r); err != nil {
		return record{}, fault.Wrap(fault.Internal, err, "read session %s", id)
	}
	if r.ID != id || r.State.EpisodeID == "" || r.Version < 0 || r.State.StepCount < 0 || r.State.RolloutsCompleted < 0 {
		return record{}, fault.New(fault.Internal, "read session %s: what is kept is none", id)
	}
	return r, nil
}
