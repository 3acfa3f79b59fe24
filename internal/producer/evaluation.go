package producer

import (
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// EvalSpec asks for evaluations: one group of each task of a set, whose results are not delivered.
type EvalSpec struct {
	Tasks     rollout.SetRef `json:"tasks"`
	SealedKey string         `json:"sealed_key,omitempty"`

	// training steps between two evaluations; the first is at step 0
	Every     int `json:"every"`
	GroupSize int `json:"group_size"`
	// Instead starts no training groups while an evaluation runs; otherwise they share the concurrency.
	Instead bool `json:"instead,omitempty"`
}

func (e *EvalSpec) validate() error {
	switch {
	case e == nil:
		return nil
	case e.Every < 1 || e.Every > maxTrainSteps:
		return fault.Field("eval.every", "must be 1 to %d steps, got %d", maxTrainSteps, e.Every)
	case e.GroupSize < 1 || e.GroupSize > rollout.MaxGroupSize:
		return fault.Field("eval.group_size", "must be 1 to %d rollouts, got %d", rollout.MaxGroupSize, e.GroupSize)
	}

	return rollout.TaskRef{Set: e.Tasks}.Validate()
}

// Evaluation is one group of each task of the evaluation set, at a step of training.
type Evaluation struct {
	Step int `json:"step"`

	// tasks whose group has started
	Next int `json:"next"`

	// groups that ended
	Done   int `json:"done"`
	Failed int `json:"failed"`

	// number of rollouts with a reward
	Rollouts int `json:"rollouts"`

	// sum of the rewards
	Sum float64 `json:"sum"`

	// rollouts with a reward of 1 or more
	Passed     int        `json:"passed"`
	StartedAt  time.Time  `json:"started_at"`
	FinishedAt *time.Time `json:"finished_at,omitempty"`
}

// Mean is the mean reward; 0 without a rollout.
func (e Evaluation) Mean() float64 { return e.Sum / float64(max(e.Rollouts, 1)) }

// Add counts a group that ended.
func (e *Evaluation) Add(rewards []float64) {
	e.Done++
	if len(rewards) == 0 {
		e.Failed++
	}

	for _, r := range rewards {
		e.Rollouts++

		e.Sum += r
		if r >= 1 {
			e.Passed++
		}
	}
}
