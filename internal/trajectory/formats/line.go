package formats

import (
	"encoding/json"
	"io"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/trajectory/sequence"
)

// Line is one sequence as a line of JSON, with the identity and the outcome of its rollout. Rollouts
// without a reward have lines too.
type Line struct {
	RolloutID string          `json:"rollout_id"`
	GroupID   string          `json:"group_id,omitempty"`
	TaskID    string          `json:"task_id"`
	Outcome   rollout.Outcome `json:"outcome"`
	Reward    *float64        `json:"reward"`

	// further rewards of the rollout, by name
	Rewards map[string]float64 `json:"rewards,omitempty"`

	// within the rollout, from 0
	Number int `json:"sequence"`

	// tokens to train on
	Trained int `json:"trained"`
	Standing
	sequence.Sequence
}

// WriteLines writes each sequence of a rollout as a line of JSON.
func WriteLines(w io.Writer, s rollout.State, data Scored) error {
	enc := json.NewEncoder(w)

	t := data.Trajectory
	for i := range t.Sequences {
		line := Line{
			RolloutID: s.ID, GroupID: s.GroupID, TaskID: s.TaskID, Outcome: s.Outcome, Reward: s.Reward, Rewards: data.Rewards,
			Number: i, Trained: t.Sequences[i].Trained(), Standing: data.Standing, Sequence: t.Sequences[i],
		}
		if err := enc.Encode(line); err != nil {
			return fault.Wrap(fault.Internal, err, "write sequence %d of rollout %q", i, s.ID)
		}
	}

	return nil
}
