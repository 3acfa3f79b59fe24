// Package session holds the OpenEnv sessions of one server: their state, their maximum, and their holders.
// One Session is one environment for a client, over any transport.
package session

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// ErrClosed is the cause of a session's end by Close.
var ErrClosed = errors.New("the session was closed")

// State is the state of a session for its client.
type State struct {
	EpisodeID         string   `json:"episode_id" nullable:"true" description:"id of the episode since the last reset"`
	StepCount         int      `json:"step_count" minimum:"0" default:"0" description:"number of steps since the last reset"`
	RolloutsCompleted int      `json:"rollouts_completed" minimum:"0" default:"0" description:"number of results delivered since the last reset"`
	LastReward        *float64 `json:"last_reward" description:"reward of the last result"`
	LastTaskID        *string  `json:"last_task_id" description:"id of the task of the last result"`
	LastSandboxID     *string  `json:"last_sandbox_id" description:"id of the sandbox of the last result"`
	// Rollouts are the latest maxRollouts rollouts started in the episode, oldest first.
	Rollouts []string `json:"rollouts,omitempty" description:"ids of the rollouts started since the last reset, oldest first; absent if there are none"`

	_ struct{} `title:"State" additionalProperties:"true"`
}

// maxRollouts bounds the rollouts of a client that never resets.
const maxRollouts = 1000

func (s State) clone() State {
	s.Rollouts = slices.Clone(s.Rollouts)
	return s
}

// Session is one environment. It is safe for concurrent use.
type Session struct {
	ID string
	// Owner is the client of the session, whose id is unknown to others. Empty if all clients are one.
	Owner string
	// Transient: the session lives for one request, and cannot be stored.
	Transient bool

	ctx    context.Context
	cancel context.CancelCauseFunc

	mu    sync.Mutex
	state State

	// rollouts whose result was delivered
	counted map[string]bool

	// rollouts that end with the session
	watched map[string]bool

	// nil: no episode is open
	playing *Playing

	// the client has closed the session; see Leave
	left bool

	// another session has taken the episode over
	yielded bool

	// nil: nothing is kept
	keeper Keeper

	// held while saving; taken before mu
	keeping sync.Mutex

	// version of the record that was kept last
	version int

	// it was saved at least once, or loaded
	stored bool

	// changed since the last save
	dirty bool

	// counts what changed; see Changes
	changes int

	// the episode that was kept last
	keptEpisode string

	// when it was
	namedAt time.Time

	// when this process saved it last; zero: another replica did since
	savedAt time.Time

	// what was kept is deleted for good
	forgotten bool

	// holds one token: that of the call that opens an episode; see Opening
	opening chan struct{}
}

// Transient returns a session outside of every Set: it takes no slot and lives until Close.
func Transient() *Session {
	s := newSession(uuid.NewString())
	s.Transient = true

	return s
}

func newSession(id string) *Session {
	ctx, cancel := context.WithCancelCause(context.Background())
	s := &Session{
		ID:      id,
		ctx:     ctx,
		cancel:  cancel,
		counted: map[string]bool{},
		watched: map[string]bool{},
		opening: make(chan struct{}, 1),
	}
	s.Reset("")

	return s
}

// Close ends the session's context with a cause.
func (s *Session) Close(cause error) { s.cancel(cause) }

// Bind returns a context that ends with ctx or with the session, whichever is first.
func (s *Session) Bind(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.ctx, func() { cancel(context.Cause(s.ctx)) })

	return ctx, func() { stop(); cancel(nil) }
}

// Reset begins a new episode; an empty id is replaced by a new one.
func (s *Session) Reset(episodeID string) {
	if episodeID == "" {
		episodeID = uuid.NewString()
	}

	s.mu.Lock()
	defer s.mu.Unlock()

	s.state, s.playing, s.yielded = State{EpisodeID: episodeID}, nil, false
	clear(s.counted)
	s.changed()
}

// Stepped counts a step of the episode.
func (s *Session) Stepped() {
	s.mu.Lock()
	defer s.mu.Unlock()

	s.state.StepCount++
	s.changed()
}

// Started records a rollout before it is started, so that a client that finds the session again finds every rollout.
func (s *Session) Started(ctx context.Context, rolloutID string) error {
	s.mu.Lock()
	if !slices.Contains(s.state.Rollouts, rolloutID) {
		// A copy: returned states share the old one.
		kept := s.state.Rollouts[max(0, len(s.state.Rollouts)-maxRollouts+1):]
		s.state.Rollouts = append(slices.Clone(kept), rolloutID)
		s.changed()
	}
	s.mu.Unlock()

	return s.Save(ctx)
}

// Finished records a delivered result; the same rollout counts once.
func (s *Session) Finished(r rollout.Result) {
	s.mu.Lock()
	defer s.mu.Unlock()

	if !s.counted[r.ID] {
		s.counted[r.ID] = true
		s.state.RolloutsCompleted++
	}

	s.changed()
	s.state.LastReward, s.state.LastTaskID, s.state.LastSandboxID = r.Reward, orNil(r.TaskID), orNil(r.SandboxID)
}

func orNil(s string) *string {
	if s == "" {
		return nil
	}

	return &s
}

// changed records a change of the visible or stored state. s.mu is held.
func (s *Session) changed() {
	s.dirty = true
	s.changes++
}

// Changes returns a number that differs after every change of the visible state.
func (s *Session) Changes() int {
	s.mu.Lock()
	defer s.mu.Unlock()

	return s.changes
}

// State returns a copy of the state.
func (s *Session) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()

	return s.state
}

// Watch makes a rollout end with the session.
func (s *Session) Watch(rolloutID string) {
	s.mu.Lock()
	defer s.mu.Unlock()

	s.watched[rolloutID] = true
	s.changed()
}

// Unwatch undoes Watch.
func (s *Session) Unwatch(rolloutID string) {
	s.mu.Lock()
	defer s.mu.Unlock()

	delete(s.watched, rolloutID)
	s.changed()
}

// Watched returns the rollouts that end with the session.
func (s *Session) Watched() []string {
	s.mu.Lock()
	defer s.mu.Unlock()

	return slices.Sorted(maps.Keys(s.watched))
}
