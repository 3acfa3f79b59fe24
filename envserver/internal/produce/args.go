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
	Tasks   []map[string]any `json:"tasks,omitempty" description:"tasks to run instead of task_set, each with arguments of run_rollout"`
	Rollout map[string]any   `json:"rollout,omitempty" description:"arguments of run_rollout for each rollout, such as endpoint, agent and sampling. They override the tasks'"`
}

type fields struct {
	ProducerID          string      `json:"producer_id,omitempty" jsonschema:"producer id chosen by the client (idempotency key): a repeated id returns the existing producer"`
	TaskSet             string      `json:"task_set,omitempty" jsonschema:"name of a task set in the server's configuration"`
	Select              *SelectArgs `json:"select,omitempty" jsonschema:"tasks of the set to run. Default: all"`
	Shuffle             *int64      `json:"shuffle,omitempty" jsonschema:"seed of a random order, which differs in each epoch. Default: the order of the set"`
	SkipBroken          bool        `json:"skip_broken,omitempty" jsonschema:"true: skip broken tasks and list them in the answer; false: refuse a set that has any"`
	RequireChecked      bool        `json:"require_checked,omitempty" jsonschema:"true: tasks of task_set that rolloutd tasks check --oracle --nop has not proved count as broken"`
	Sink                string      `json:"sink" jsonschema:"name of a sink in the server's configuration"`
	GroupSize           int         `json:"group_size" jsonschema:"number of rollouts in a group, all of one task"`
	MaxReplacements     *int        `json:"max_replacements,omitempty" jsonschema:"replacements in a group for rollouts that infrastructure failures lost. Default: group_size"`
	GroupDeadlineS      float64     `json:"group_deadline_s,omitempty" jsonschema:"seconds after the start of a group at which its running rollouts are aborted. Default: only their own limits apply"`
	Concurrency         int         `json:"concurrency,omitempty" jsonschema:"largest number of rollouts at a time"`
	MaxBatchesOffpolicy *int        `json:"max_batches_offpolicy,omitempty" jsonschema:"largest number of batches produced ahead of the trainer; 0: no bound"`
	TotalSteps          int         `json:"total_steps,omitempty" jsonschema:"training steps after which the producer ends. Default: the sink's number, or no bound"`
	Epochs              *int        `json:"epochs,omitempty" jsonschema:"passes over the tasks; 0: no bound"`
	BatchSize           int         `json:"batch_size,omitempty" jsonschema:"rollouts in a training step, if the sink does not give the number. Default: group_size"`
	Filter              *FilterArgs `json:"filter,omitempty" jsonschema:"finished groups that are dropped instead of delivered; the state counts them by reason"`
	Eval                *EvalArgs   `json:"eval,omitempty" jsonschema:"evaluations during training; their results are not delivered"`
}

// SelectArgs choose tasks of a set.
type SelectArgs struct {
	Tasks   []string `json:"tasks,omitempty" jsonschema:"names of tasks, or globs"`
	Exclude []string `json:"exclude,omitempty" jsonschema:"names or globs of tasks to exclude"`
	Shard   int      `json:"shard,omitempty" jsonschema:"index of the part of the tasks to run, from 0"`
	Shards  int      `json:"shards,omitempty" jsonschema:"number of parts that the tasks are split into"`
	Limit   int      `json:"limit,omitempty" jsonschema:"largest number of tasks"`
}

// FilterArgs say which groups are not delivered.
type FilterArgs struct {
	producer.GroupFilter
	// takes the place of GroupFilter's field: the default is true
	EqualScores *bool `json:"equal_scores,omitempty" jsonschema:"drop groups whose rewards are all equal. Default: true"`
}

// EvalArgs ask for evaluations.
type EvalArgs struct {
	TaskSet   string      `json:"task_set" jsonschema:"name of a task set in the server's configuration"`
	Select    *SelectArgs `json:"select,omitempty" jsonschema:"tasks of the set to run. Default: all"`
	Every     int         `json:"every" jsonschema:"training steps between two evaluations. The first evaluation is at step 0"`
	GroupSize int         `json:"group_size,omitempty" jsonschema:"number of rollouts of each task. Default: 1"`
	Instead   bool        `json:"instead,omitempty" jsonschema:"pause new training groups while an evaluation runs"`
}

const (
	defaultConcurrency = 32
	defaultOffpolicy   = 3
)

// Started is the answer to a start.
type Started struct {
	producer.State
	Broken   []string `json:"broken,omitempty" description:"tasks that were skipped, with the reason"`
	Unproved int      `json:"unproved,omitempty" description:"number of tasks of task_set that rolloutd tasks check --oracle --nop has not proved"`
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

	return Started{State: s, Broken: train.broken, Unproved: train.unproved}, err
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

	if a.RequireChecked && a.TaskSet == "" {
		return a, src, fault.Field("require_checked", "needs task_set: the checks of tasks are kept beside their set")
	}

	if a.Shuffle != nil && *a.Shuffle < 0 {
		return a, src, fault.Field("shuffle", "must be a whole number from 0, got %d", *a.Shuffle)
	}

	src.set, src.selection = a.TaskSet, a.Select
	src.skipBroken, src.requireChecked = a.SkipBroken, a.RequireChecked

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
		p.Filter = f.GroupFilter
		p.Filter.EqualScores = f.EqualScores == nil || *f.EqualScores
	}

	if e := a.Eval; e != nil {
		p.Eval = &producer.EvalSpec{Every: e.Every, GroupSize: max(e.GroupSize, 1), Instead: e.Instead}
	}

	return p
}
