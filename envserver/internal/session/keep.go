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

// Keeper stores sessions beyond this process, shared by all replicas. Keys are safe file names.
type Keeper interface {
	// Load returns the latest saved value of key; fault.NotFound: none.
	Load(ctx context.Context, key string) ([]byte, error)
	Save(ctx context.Context, key string, data []byte) error
	// Delete deletes a key. A missing one is not an error.
	Delete(ctx context.Context, key string) error
}

// nameAgain is the age at which an unchanged episode record is written again while its session changes: old
// records are deleted as abandoned.
const nameAgain = time.Hour

// keepTimeout bounds one access to the Keeper, so that it does not delay a step for long.
const keepTimeout = 10 * time.Second

// record is the stored form of a session. Field names are a stored format.
type record struct {
	ID string `json:"id"`

	// grows with every stored change
	Version int      `json:"version"`
	State   State    `json:"state"`
	Counted []string `json:"counted,omitempty"`
	Watched []string `json:"watched,omitempty"`
	Playing *Playing `json:"playing,omitempty"`
}

// sessionKey and episodeKey include the owner, so that an id is of no use to another client, and are
// hashes, so that an id may be any text.
func sessionKey(owner, id string) string { return "session-" + digest(owner, id) }
func episodeKey(owner, id string) string { return "episode-" + digest(owner, id) }

func digest(owner, id string) string {
	sum := sha256.Sum256([]byte(owner + "\x00" + id))
	return hex.EncodeToString(sum[:])
}

// snapshot returns the session's record; s.mu is held.
func (s *Session) snapshot() record {
	return record{ID: s.ID, Version: s.version, State: s.state.clone(),
		Counted: slices.Sorted(maps.Keys(s.counted)), Watched: slices.Sorted(maps.Keys(s.watched)), Playing: s.playing}
}

// adopt sets the session to the record; s.mu is held.
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

// Save saves the session if it has changed since the last save. The record of an episode names the session
// that began or joined it last.
func (s *Session) Save(ctx context.Context) error {
	if s.keeper == nil {
		return nil
	}
	// one at a time, so that an older state never overwrites a newer one
	s.keeping.Lock()
	defer s.keeping.Unlock()

	s.mu.Lock()
	dirty, episode := s.dirty && !s.forgotten, s.state.EpisodeID

	name := !s.yielded && (episode != s.keptEpisode || time.Since(s.namedAt) > nameAgain)
	if dirty {
		s.version++
	}

	s.dirty = false
	r := s.snapshot()
	s.mu.Unlock()

	if !dirty {
		return nil
	}

	err := s.saveRecord(ctx, r, name)
	s.mu.Lock()
	defer s.mu.Unlock()

	if err != nil {
		s.dirty = true
		return err
	}

	s.stored, s.savedAt = true, time.Now()
	if name {
		s.keptEpisode, s.namedAt = episode, s.savedAt
	}

	return nil
}

func (s *Session) saveRecord(ctx context.Context, r record, name bool) error {
	// The caller's context may have ended with its client; the change is saved anyway.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepTimeout)
	defer cancel()

	if err := save(ctx, s.keeper, s.Owner, r); err != nil || !name {
		return err
	}

	return s.keeper.Save(ctx, episodeKey(s.Owner, r.State.EpisodeID), []byte(s.ID))
}

// save writes the record of a session.
func save(ctx context.Context, k Keeper, owner string, r record) error {
	data, err := json.Marshal(r)
	if err != nil {
		return fault.Wrap(fault.Internal, err, "write session %s", r.ID)
	}

	return k.Save(ctx, sessionKey(owner, r.ID), data)
}

// forget deletes the record of a session that was closed for good. A call in progress does not save it again.
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

// Holds reports whether no other session, of any replica, has joined the episode since this one began or joined it.
func (s *Session) Holds(ctx context.Context) bool {
	episode := s.State().EpisodeID
	if !s.has(episode) {
		return false
	}

	id, err := latest(ctx, s.keeper, s.Owner, episode)

	return err != nil || id == s.ID
}

// latest returns the stored id of the session that was the last to begin or join an episode.
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

// load reads the record of a session; an UnknownError: there is none.
func load(ctx context.Context, k Keeper, owner, id string) (record, error) {
	if k == nil {
		return record{}, &UnknownError{id}
	}

	ctx, cancel := context.WithTimeout(ctx, keepTimeout)
	defer cancel()

	var r record

	data, err := k.Load(ctx, sessionKey(owner, id))
	switch {
	case fault.Is(err, fault.NotFound):
		return r, &UnknownError{id}
	case err != nil:
		return r, fault.Wrap(fault.KindOf(err), err, "look for session %s", id)
	}

	return read(data, id)
}

// read decodes the record of a session. Invalid bytes are an error, so that no client continues in a
// session that never existed.
func read(data []byte, id string) (r record, err error) {
	if err := json.Unmarshal(data, &r); err != nil {
		return record{}, fault.Wrap(fault.Internal, err, "read session %s", id)
	}

	if r.ID != id || r.State.EpisodeID == "" || r.Version < 0 || r.State.StepCount < 0 ||
		r.State.RolloutsCompleted < 0 {
		return record{}, fault.New(fault.Internal, "read session %s: the stored record is not valid", id)
	}

	return r, nil
}
