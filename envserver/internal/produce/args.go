// Package produce starts producers from a client's arguments. It reads the tasks of a set, resolves each as
// run_rollout would, and stores them.
package produce

import (
	"context"
	"iter"
	"time"

	"github.com/rolloutd/rolloutd/envserver/internal/arguments"
	"github.com/rolloutd/rolloutd/envserver/internal/tools"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/producer"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Engine is the Starter's interface of the engine that runs producers.
type Engine interface {
	// StoreTasks stores a set of tasks under the digest of its tasks.
	StoreTasks(ctx context.Context, tasks iter.Seq2[rollout.Spec, error]) (rollout.SetRef, error)
	// StartProducer starts the producer, or finds the one that has this id already.
	StartProducer(ctx context.Context, p producer.Spec) (producer.State, error)
	// Producer returns the state of a producer; fault.NotFound for an unknown id.
	Producer(ctx context.Context, id string) (producer.State, error)
}

// Starter starts producers. It is safe for concurrent use.
type Starter struct {
	Tools  *tools.Table
	Engine Engine

	// paths of sets by name
	TaskSets map[string]string
	NewID    func() string
}

// Args are the arguments that start a producer.
type Args struct {
	fields
	Tasks   []map[string]any `json:"tasks,omitempty" description:"tasks in place of task_set; each has arguments of run_rollout"`
	Rollout map[string]any   `json:"rollout,omitempty" description:"arguments of run_rollout that hold for each rollout (endpoint, agent, sampling …); they win over the tasks'"`
}

type fields struct {
	ProducerID          string      `json:"producer_id,omitempty" jsonschema:"your id for the producer; the same id returns the same producer"`
	TaskSet             string      `json:"task_set,omitempty" jsonschema:"name of a configured task set"`
	Select              *SelectArgs `json:"select,omitempty" jsonschema:"which tasks of the set; left out: all"`
	Shuffle             *int64      `json:"shuffle,omitempty" jsonschema:"seed of the order, another one in each epoch; left out: the order of the set"`
	SkipBroken          bool        `json:"skip_broken,omitempty" jsonschema:"leave broken tasks out and name them in the answer; otherwise they are refused"`
	Sink                string      `json:"sink" jsonschema:"name of a configured sink"`
	GroupSize           int         `json:"group_size" jsonschema:"rollouts of each task"`
	MaxReplacements     *int        `json:"max_replacements,omitempty" jsonschema:"rollouts of a group that may replace others which infrastructure lost; left out: as many as the group is large"`
	GroupDeadlineS      float64     `json:"group_deadline_s,omitempty" jsonschema:"seconds from a group's start after which its rollouts that still run are aborted; left out: their own bounds"`
	Concurrency         int         `json:"concurrency,omitempty" jsonschema:"rollouts at once"`
	MaxBatchesOffpolicy *int        `json:"max_batches_offpolicy,omitempty" jsonschema:"batches that may be produced ahead of the trainer; 0 sets no bound"`
	TotalSteps          int         `json:"total_steps,omitempty" jsonschema:"training steps after which the producer ends; left out: as the sink says, or none"`
	Epochs              *int        `json:"epochs,omitempty" jsonschema:"passes over the tasks; 0 sets no bound"`
	BatchSize           int         `json:"batch_size,omitempty" jsonschema:"rollouts of a training step where the sink does not say; left out: group_size"`
	Filter              *FilterArgs `json:"filter,omitempty" jsonschema:"which finished groups are not delivered; each is counted"`
	Eval                *EvalArgs   `json:"eval,omitempty" jsonschema:"evaluations while training runs; their results are not delivered"`
}

// SelectArgs choose tasks of a set.
type SelectArgs struct {
	Tasks   []string `json:"tasks,omitempty" jsonschema:"names or globs"`
	Exclude []string `json:"exclude,omitempty" jsonschema:"names or globs of tasks that are left out"`
	Shard   int      `json:"shard,omitempty" jsonschema:"part of the tasks, from 0"`
	Shards  int      `json:"shards,omitempty" jsonschema:"number of parts"`
	Limit   int      `json:"limit,omitempty" jsonschema:"tasks at most"`
}

// FilterArgs say which groups are not delivered.
type FilterArgs struct {
	EqualScores *bool `json:"equal_scores,omitempty" jsonschema:"groups whose rewards are all equal; default true"`
	MaxTokens   int   `json:"max_tokens,omitempty" jsonschema:"groups with a training sequence of this many tokens or more"`
	MinRollouts int   `json:"min_rollouts,omitempty" jsonschema:"groups with fewer rewards; left out: the sink decides"`

	MaxVersionLag *int `json:"max_version_lag,omitempty" jsonschema:"groups sampled by weights more than this many versions before the step of the sink's trainer; left out: none"`

	MarkStale bool `json:"mark_stale,omitempty" jsonschema:"deliver groups beyond max_version_lag nevertheless, with their lag in group_overrides.version_lag"`

	OneVersion bool `json:"one_version,omitempty" jsonschema:"groups that more than one version of the weights sampled"`
}

// EvalArgs ask for evaluations.
type EvalArgs struct {
	TaskSet   string      `json:"task_set" jsonschema:"name of a configured task set"`
	Select    *SelectArgs `json:"select,omitempty" jsonschema:"which tasks of the set; left out: all"`
	Every     int         `json:"every" jsonschema:"training steps between two evaluations; the first is at step 0"`
	GroupSize int         `json:"group_size,omitempty" jsonschema:"rollouts of each task; default 1"`
	Instead   bool        `json:"instead,omitempty" jsonschema:"start no training groups while an evaluation runs"`
}

const (
	defaultConcurrency = 32
	defaultOffpolicy   = 3
)

// Started is the answer to a start.
type Started struct {
	producer.State
	Broken []string `json:"broken,omitempty" description:"tasks that are left out, and why"`
}

// Start reads the arguments, stores the tasks and starts the producer.
func (m *Starter) Start(ctx context.Context, args map[string]any) (Started, error) {
	a, src, err := separate(args)
	if err != nil {
		return Started{}, err
	}

	if a.ProducerID != "" {
		s, err := m.Engine.Producer(ctx, a.ProducerID)
		if !fault.Is(err, fault.NotFound) {
			return Started{State: s}, err
		}
	}

	p := producerSpec(a, m.id(a.ProducerID))
	// placeholder, so that invalid numbers are refused before tasks are read
	p.Tasks = rollout.SetRef{Key: rollout.SetKey(noDigest), Len: 1}
	if p.Eval != nil {
		p.Eval.Tasks = p.Tasks
	}

	if err := p.Validate(); err != nil {
		return Started{}, err
	}

	train, err := m.storeTasks(ctx, src)
	if err != nil {
		return Started{}, err
	}

	p.Tasks, p.SealedKey = train.ref, train.key
	if p.Eval != nil {
		eval, err := m.storeTasks(ctx, src.evaluation(*a.Eval))
		if err != nil {
			return Started{}, fault.Wrap(fault.KindOf(err), err, "eval")
		}

		p.Eval.Tasks, p.Eval.SealedKey = eval.ref, eval.key
		train.broken = append(train.broken, eval.broken...)
	}

	s, err := m.Engine.StartProducer(ctx, p)

	return Started{State: s, Broken: train.broken}, err
}

const noDigest = "0000000000000000000000000000000000000000000000000000000000000000"

// separate splits the producer's own arguments from the tasks and the arguments of rollouts, which have
// schemas of their own.
func separate(args map[string]any) (fields, taskSource, error) {
	src := taskSource{}
	plain := map[string]any{}

	for name, v := range args {
		switch name {
		case "tasks":
			list, ok := v.([]any)
			if !ok {
				return fields{}, src, fault.Field("tasks", "must be a list of tasks")
			}

			src.inline = list
		case "rollout":
			m, ok := v.(map[string]any)
			if !ok && v != nil {
				return fields{}, src, fault.Field("rollout", "must be an object with arguments of run_rollout")
			}

			src.rollout = m
		default:
			plain[name] = v
		}
	}

	var a fields
	if err := arguments.Decode("a producer", plain, &a); err != nil {
		return a, src, err
	}

	if (a.TaskSet == "") == (src.inline == nil) {
		return a, src, fault.Field("task_set", "give task_set, the name of a configured set, or tasks, but not both")
	}

	if a.Shuffle != nil && *a.Shuffle < 0 {
		return a, src, fault.Field("shuffle", "must be a whole number from 0, got %d", *a.Shuffle)
	}

	src.set, src.selection, src.skipBroken = a.TaskSet, a.Select, a.SkipBroken

	return a, src, nil
}

func set[T any](to, v *T) {
	if v != nil {
		*to = *v
	}
}

// producerSpec is the producer of the arguments, without its tasks.
func producerSpec(a fields, id string) producer.Spec {
	p := producer.Spec{
		ID: id, Name: a.TaskSet, GroupSize: a.GroupSize, MaxReplacements: a.GroupSize, Sink: a.Sink,
		GroupDeadline: time.Duration(a.GroupDeadlineS * float64(time.Second)), BatchSize: a.BatchSize, Epochs: 1,
		Bounds: producer.Bounds{
			Concurrency:         defaultConcurrency,
			MaxBatchesOffpolicy: defaultOffpolicy,
			TotalSteps:          a.TotalSteps,
		},
		Filter: producer.GroupFilter{EqualScores: true},
	}
	if a.Concurrency != 0 {
		p.Bounds.Concurrency = a.Concurrency
	}

	set(&p.MaxReplacements, a.MaxReplacements)
	set(&p.Bounds.MaxBatchesOffpolicy, a.MaxBatchesOffpolicy)

	if a.TotalSteps > 0 {
		p.Epochs = 0
	}

	set(&p.Epochs, a.Epochs)

	if a.Shuffle != nil {
		seed := uint64(*a.Shuffle)
		p.Shuffle = &seed
	}

	if f := a.Filter; f != nil {
		set(&p.Filter.EqualScores, f.EqualScores)
		p.Filter.MaxTokens, p.Filter.MinRollouts, p.Filter.MaxVersionLag = f.MaxTokens, f.MinRollouts, f.MaxVersionLag
		p.Filter.MarkStale, p.Filter.OneVersion = f.MarkStale, f.OneVersion
	}

	if e := a.Eval; e != nil {
		p.Eval = &producer.EvalSpec{Every: e.Every, GroupSize: max(e.GroupSize, 1), Instead: e.Instead}
	}

	return p
}
