// Package producer has the types of producers: what one is asked to do, its state, and the changes that a
// running one takes. A producer runs groups of a task set, as many at once as a sink can take.
package producer

import (
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

const (
	// leaves room in a group's id for its number
	maxID     = 32
	maxEpochs = 1 << 20
)

// Spec asks for groups of a task set, as many at once as a sink can take. It is the input of
// ProducerWorkflow and therefore part of stored histories: fields are added, never renamed or removed.
type Spec struct {
	ID    string `json:"id"`
	Owner string `json:"owner,omitempty"`

	// name of the task set, for people
	Name  string         `json:"name,omitempty"`
	Tasks rollout.SetRef `json:"tasks"`
	// SealedKey is the API key of the model endpoint, which the stored tasks do not have.
	SealedKey string `json:"sealed_key,omitempty"`

	GroupSize int `json:"group_size"`

	// bound of one group; see rollout.GroupSpec
	MaxReplacements int           `json:"max_replacements"`
	GroupDeadline   time.Duration `json:"group_deadline,omitempty"`
	Sink            string        `json:"sink"`

	Bounds Bounds `json:"bounds"`

	// seed of the order, another one in each epoch; nil: the order of the set
	Shuffle *uint64 `json:"shuffle,omitempty"`

	// 0: without bound
	Epochs int `json:"epochs,omitempty"`

	// rollouts of a training step where the sink does not give a number; 0: those of a group
	BatchSize int         `json:"batch_size,omitempty"`
	Filter    GroupFilter `json:"filter"`
	Eval      *EvalSpec   `json:"eval,omitempty"`

	// From is the state to continue from; nil: this is the first run of the workflow.
	From *State `json:"from,omitempty"`
}

// Begin is the state with which a run of the workflow begins: a new one, or that of the run before.
func (p Spec) Begin(now time.Time) State {
	if p.From != nil {
		s := *p.From
		s.Runs++

		return s
	}

	return State{
		ID:        p.ID,
		Owner:     p.Owner,
		Name:      p.Name,
		Sink:      p.Sink,
		GroupSize: p.GroupSize,
		Phase:     Running,
		Bounds:    p.Bounds,
		Running:   []RunningGroup{},
		Outbox:    []Finished{},
		Again:     []Cursor{},
		Evaluated: []Evaluation{},
		StartedAt: now,
		Runs:      1,
	}
}

// GroupFilter says which finished groups are not delivered. Each is counted by its reason. Clients set the fields by
// their JSON names; the tags describe them.
type GroupFilter struct {
	// those of two rollouts or more: they have no advantage
	EqualScores bool `json:"equal_scores,omitempty" jsonschema:"drop groups whose rewards are all equal"`

	// 0: none
	MaxTokens int `json:"max_tokens,omitempty" jsonschema:"drop groups with a training sequence of this many tokens or more"`

	// 0: the sink decides
	MinRollouts int `json:"min_rollouts,omitempty" jsonschema:"drop groups with fewer rewards than this. Default: the sink decides"`

	// MaxVersionLag compares the weights that sampled each trained token with the trainer's step; nil: none are dropped.
	MaxVersionLag *int `json:"max_version_lag,omitempty" jsonschema:"drop groups whose weights are more than this many versions behind the trainer's step. Default: none are dropped"`

	// MarkStale is for sinks that have a trainer's step; see rollout.DeliverySpec.MarkStale.
	MarkStale bool `json:"mark_stale,omitempty" jsonschema:"deliver groups beyond max_version_lag, with their lag in group_overrides.version_lag, instead of dropping them"`

	// OneVersion compares the weights of trained tokens, where the endpoint reports versions.
	OneVersion bool `json:"one_version,omitempty" jsonschema:"drop groups that were sampled by more than one version of the weights"`
}

// Validate reports what is wrong with the producer. The error's kind is Invalid.
func (p Spec) Validate() error {
	switch {
	case rollout.CheckID(p.ID) != nil || len(p.ID) > maxID:
		return fault.Field("producer_id",
			"must be 1 to %d letters, digits, '_' or '-', beginning with a letter or digit, got %q",
			maxID, p.ID)
	case p.GroupSize < 1 || p.GroupSize > rollout.MaxGroupSize:
		return fault.Field("group_size", "must be 1 to %d rollouts, got %d", rollout.MaxGroupSize, p.GroupSize)
	case p.MaxReplacements < 0 || p.MaxReplacements > rollout.MaxReplacements:
		return fault.Field("max_replacements", "must be 0 to %d, got %d", rollout.MaxReplacements, p.MaxReplacements)
	case p.GroupDeadline < 0:
		return fault.Field("group_deadline_s", "must not be negative, got %g", p.GroupDeadline.Seconds())
	case p.Sink == "":
		return fault.Field("sink", "must be the name of a sink in the configuration")
	case p.Epochs < 0 || p.Epochs > maxEpochs:
		return fault.Field("epochs", "must be 0 (no bound) to %d, got %d", maxEpochs, p.Epochs)
	case p.BatchSize < 0 || p.BatchSize > maxTrainSteps:
		return fault.Field("batch_size", "must be 0 (one group) to %d, got %d", maxTrainSteps, p.BatchSize)
	case p.Filter.MaxTokens < 0:
		return fault.Field("filter.max_tokens", "must not be negative, got %d", p.Filter.MaxTokens)
	case p.Filter.MaxVersionLag != nil && *p.Filter.MaxVersionLag < 0:
		return fault.Field("filter.max_version_lag", "must not be negative, got %d", *p.Filter.MaxVersionLag)
	case p.Filter.MarkStale && p.Filter.MaxVersionLag == nil:
		return fault.Field("filter.mark_stale", "needs filter.max_version_lag")
	case p.Filter.MinRollouts < 0 || p.Filter.MinRollouts > p.GroupSize:
		return fault.Field("filter.min_rollouts", "must be 0 to group_size (%d), got %d",
			p.GroupSize, p.Filter.MinRollouts)
	}

	if err := p.Bounds.Validate(); err != nil {
		return err
	}

	if err := (rollout.TaskRef{Set: p.Tasks}).Validate(); err != nil {
		return err
	}

	return p.Eval.validate()
}
