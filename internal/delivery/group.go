package delivery

import (
	"slices"
	"time"

	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/trajectory/formats"
)

// Group is one finished group for a sink.
type Group struct {
	// Key is the idempotency key: equal for every delivery of the group, and unique to it.
	Key     string               `json:"key"`
	ID      string               `json:"group_id"`
	TaskID  string               `json:"task_id"`
	Owner   string               `json:"owner,omitempty"`
	Outcome rollout.GroupOutcome `json:"outcome"`

	// requested rollouts
	Size     int       `json:"size"`
	Siblings []Sibling `json:"siblings,omitempty"`

	// statistics of the siblings' rewards
	Statistics rollout.Statistics `json:"statistics"`
	FinishedAt time.Time          `json:"finished_at"`

	// Lag is the number of versions by which the group's oldest weights are behind the trainer's step; nil:
	// within the bound.
	Lag *int64 `json:"version_lag,omitempty"`

	// Data has the training sequences of each sibling, in the order of Siblings. Each has a reward and at
	// least one token to train on.
	Data []formats.Scored `json:"-"`

	// by the id of a rollout
	standings map[string]formats.Standing
}

// Sibling is one rollout of a group that has a reward.
type Sibling struct {
	RolloutID string          `json:"rollout_id"`
	Outcome   rollout.Outcome `json:"outcome"`
	Reward    float64         `json:"reward"`
}

// Sequences returns the number of training sequences of all siblings.
func (g *Group) Sequences() int {
	n := 0
	for i := range g.Data {
		n += len(g.Data[i].Trajectory.Sequences)
	}

	return n
}

// longest returns the number of tokens of the longest training sequence.
func (g *Group) longest() int {
	n := 0

	for i := range g.Data {
		for _, s := range g.Data[i].Trajectory.Sequences {
			n = max(n, len(s.TokenIDs))
		}
	}

	return n
}

// oldestVersion returns the oldest version of the weights that sampled a token to train on; false: no version is known.
func (g *Group) oldestVersion() (oldest int64, known bool) {
	for i := range g.Data {
		for k := range g.Data[i].Trajectory.Sequences {
			v, ok := g.Data[i].Trajectory.Sequences[k].OldestVersion()
			if ok && (!known || v < oldest) {
				oldest, known = v, true
			}
		}
	}

	return oldest, known
}

// versions returns the distinct versions of the weights that sampled tokens to train on, sorted.
func (g *Group) versions() []string {
	var all []string

	for i := range g.Data {
		for k := range g.Data[i].Trajectory.Sequences {
			all = slices.AppendSeq(all, g.Data[i].Trajectory.Sequences[k].Versions())
		}
	}

	slices.Sort(all)

	return slices.Compact(all)
}

// GroupOf returns the group of a stored state, without Data. It omits members without a reward.
func GroupOf(s rollout.GroupState) Group {
	g := Group{Key: s.Key(), ID: s.ID, TaskID: s.TaskID, Owner: s.Owner, Outcome: s.Outcome, Size: s.Size}
	if s.FinishedAt != nil {
		g.FinishedAt = *s.FinishedAt
	}

	var rewards []float64

	for _, m := range s.Members {
		if m.Outcome.MayCarryReward() && m.Reward != nil {
			g.Siblings = append(g.Siblings, Sibling{m.RolloutID, m.Outcome, *m.Reward})
			rewards = append(rewards, *m.Reward)
		}
	}

	g.Statistics, g.standings = rollout.StatisticsOf(rewards), formats.StandingsOf(s)

	return g
}
