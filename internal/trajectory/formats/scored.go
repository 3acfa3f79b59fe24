package formats

import (
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/trajectory/sequence"
)

// Scored is one rollout's trajectory and its reward.
type Scored struct {
	RolloutID string

	// nil: none; not training data
	Reward *float64

	// by name
	Rewards map[string]float64

	// in its group
	Standing
	Trajectory sequence.Trajectory
}

// Standing is what a trainer needs to know about a rollout's group. It is empty for a rollout by itself.
type Standing struct {
	// GroupKey is equal for the rollouts of a group, and the idempotency key of its deliveries.
	GroupKey string `json:"group_key,omitempty"`
	// Advantage is the reward minus the mean of the group's rewards, divided by their standard deviation; nil: no
	// reward.
	Advantage *float64 `json:"advantage,omitempty"`
	// CentredAdvantage is the same without the division.
	CentredAdvantage *float64 `json:"centred_advantage,omitempty"`
}

// StandingsOf returns the standing of each member of a group that is done, by the id of its rollout.
func StandingsOf(g rollout.GroupState) map[string]Standing {
	out := map[string]Standing{}
	rewards := g.Rewards()
	scaled, centred := rollout.Advantages(rewards, true), rollout.Advantages(rewards, false)

	for _, m := range g.Members {
		s := Standing{GroupKey: g.Key()}
		if m.Reward != nil {
			s.Advantage, s.CentredAdvantage = &scaled[0], &centred[0]
			scaled, centred = scaled[1:], centred[1:]
		}

		out[m.RolloutID] = s
	}

	return out
}

// check refuses a rollout without a reward: a trainer would take a missing reward for a bad one.
func (s *Scored) check() error {
	if s.Reward == nil {
		return fault.New(fault.Conflict, "rollout %q has no reward: its outcome carries none, or nothing graded it",
			s.RolloutID)
	}

	if s.Trajectory.Trained() == 0 {
		return fault.New(fault.Conflict, "rollout %q has no token to train on: %d turns, skipped %v",
			s.RolloutID, s.Trajectory.Turns, s.Trajectory.Skipped)
	}

	for i := range s.Trajectory.Sequences {
		if of := &s.Trajectory.Sequences[i]; of.Trained() > 0 && !of.HasImages() {
			return nil
		}
	}

	return fault.New(fault.Conflict,
		"all sequences of rollout %q have images, which this format has no place for: read the sequences as jsonl",
		s.RolloutID)
}

// each calls do for every sequence that has a token to train on and no images, which the lists have no place for.
func each(group []Scored, do func(s *sequence.Sequence, of *Scored)) error {
	for i := range group {
		if err := group[i].check(); err != nil {
			return err
		}

		for k := range group[i].Trajectory.Sequences {
			if s := &group[i].Trajectory.Sequences[k]; s.Trained() > 0 && !s.HasImages() {
				do(s, &group[i])
			}
		}
	}

	return nil
}
