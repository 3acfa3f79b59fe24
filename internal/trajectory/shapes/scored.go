package shapes

import (
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/trajectory/sequence"
)

// Scored is one rollout's trajectory and its reward.
type Scored struct {
	RolloutID  string
	Reward     *float64 // nil: none; not training data
	Trajectory sequence.Trajectory
}

// check refuses a rollout without a reward: a trainer would take a missing reward for a bad one.
func (s *Scored) check() error {
	if s.Reward == nil {
		return fault.New(fault.Conflict, "rollout %q has no reward: its outcome carries none, or nothing graded it", s.RolloutID)
	}
	if s.Trajectory.Trained() == 0 {
		return fault.New(fault.Conflict, "rollout %q has no token to train on: %d turns, skipped %v", s.RolloutID, s.Trajectory.Turns, s.Trajectory.Skipped)
	}
	return nil
}

// each calls do for every sequence that has a token to train on.
func each(group []Scored, do func(s *sequence.Sequence, reward float64)) error {
	for i := range group {
		if err := group[i].check(); err != nil {
			return err
		}
		for k := range group[i].Trajectory.Sequences {
			if s := &group[i].Trajectory.Sequences[k]; s.Trained() > 0 {
				do(s, *group[i].Reward)
			}
		}
	}
	return nil
}
