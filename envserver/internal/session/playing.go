package session

import (
	"context"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// Playing is the interactive episode of a session. A returned value does not change.
type Playing struct {
	RolloutID   string   `json:"rollout_id"`
	TaskID      string   `json:"task_id,omitempty"`
	Instruction string   `json:"instruction,omitempty"`
	SandboxID   string   `json:"sandbox_id,omitempty"`
	ToolsUsed   []string `json:"tools_used,omitempty"`
	Done        bool     `json:"done,omitempty"`

	// the session's StepCount is final
	Counted bool     `json:"counted,omitempty"`
	Reward  *float64 `json:"reward,omitempty"`
	Outcome string   `json:"outcome,omitempty"`
}

// Playing returns the interactive episode; nil: none is open.
func (s *Session) Playing() *Playing {
	s.mu.Lock()
	defer s.mu.Unlock()

	return s.playing
}

// Opening lets one call at a time open an episode, so that concurrent calls use the one that the first of
// them opens. The caller calls done.
func (s *Session) Opening(ctx context.Context) (done func(), err error) {
	select {
	case s.opening <- struct{}{}:
		return func() { <-s.opening }, nil
	case <-ctx.Done():
		return nil, fault.Wrap(fault.Unavailable, context.Cause(ctx), "wait for the episode to begin")
	}
}

// Play sets the interactive episode and saves the session.
func (s *Session) Play(ctx context.Context, p Playing) error {
	s.mu.Lock()
	s.playing = &p
	s.changed()
	s.mu.Unlock()

	return s.Save(ctx)
}

// Progress changes the episode of that rollout and saves the session. It does nothing if another episode
// has followed: a late call does not concern that one.
func (s *Session) Progress(ctx context.Context, rolloutID string, change func(*Playing)) error {
	s.mu.Lock()
	if s.playing == nil || s.playing.RolloutID != rolloutID {
		s.mu.Unlock()
		return nil
	}

	p := *s.playing
	change(&p)
	s.playing = &p
	s.changed()
	s.mu.Unlock()

	return s.Save(ctx)
}

// CountSteps sets the number of executed steps of that rollout's episode. A late answer, whose number is
// smaller, changes nothing.
func (s *Session) CountSteps(rolloutID string, steps int) {
	s.mu.Lock()
	defer s.mu.Unlock()

	if s.playing != nil && s.playing.RolloutID == rolloutID && steps > s.state.StepCount {
		s.state.StepCount = steps
		s.changed()
	}
}

// Leave records that the client closes the session, as opposed to losing its connection.
func (s *Session) Leave() {
	s.mu.Lock()
	defer s.mu.Unlock()

	s.left = true
}

// Left reports whether the client has closed the session.
func (s *Session) Left() bool {
	s.mu.Lock()
	defer s.mu.Unlock()

	return s.left
}
