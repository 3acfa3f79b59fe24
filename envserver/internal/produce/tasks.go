package produce

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"strings"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/taskset"
)

// taskSource is the source of a producer's tasks.
type taskSource struct {
	// name of a configured set; "": inline
	set       string
	inline    []any
	selection *SelectArgs

	// arguments of each rollout
	rollout    map[string]any
	skipBroken bool
	eval       bool

	// tasks of the set that were not proved are broken
	requireChecked bool
}

// evaluation returns the source of the tasks of evaluations.
func (s taskSource) evaluation(e EvalArgs) taskSource {
	return taskSource{set: e.TaskSet, selection: e.Select, rollout: s.rollout, skipBroken: s.skipBroken, eval: true}
}

// storedTasks are the tasks of a producer in the store.
type storedTasks struct {
	ref rollout.SetRef

	// API key of the model endpoint, sealed
	key string

	// left out, and why
	broken []string

	// number of tasks of a configured set that are not proved
	unproved int
}

// maxBroken bounds the broken tasks that an error or an answer names.
const maxBroken = 20

// storeTasks resolves each task as run_rollout would, and stores them. The error names broken tasks.
func (m *Starter) storeTasks(ctx context.Context, src taskSource) (storedTasks, error) {
	tasks, closeSet, err := m.openTasks(src)
	if err != nil {
		return storedTasks{}, err
	}
	defer closeSet()

	var out storedTasks

	broken, more := []string{}, 0

	ref, err := m.Engine.StoreTasks(ctx, func(yield func(rollout.Spec, error) bool) {
		for task, err := range tasks {
			var unproved *taskset.UnprovedError
			if errors.As(err, &unproved) && !src.requireChecked {
				err = nil
			}

			var spec rollout.Spec
			if err == nil {
				spec, err = m.taskSpec(src, task)
			}

			switch {
			case err == nil:
				if unproved != nil {
					out.unproved++
				}

				out.key, spec.Model.SealedKey = spec.Model.SealedKey, ""
				if !yield(spec, nil) {
					return
				}
			case len(broken) < maxBroken:
				broken = append(broken, err.Error())
			default:
				more++
			}
		}

		if len(broken) > 0 && !src.skipBroken {
			yield(rollout.Spec{}, brokenTasks(broken, more))
		}
	})
	switch {
	case err != nil:
		return out, err
	case ref.Len == 0:
		return out, brokenTasks(broken, more)
	}

	out.ref, out.broken = ref, broken

	return out, nil
}

func brokenTasks(broken []string, more int) error {
	if len(broken) == 0 {
		return fault.Field("tasks", "there are no tasks")
	}

	text := strings.Join(broken, "; ")
	if more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}

	return fault.Field("tasks", "%d tasks are broken (skip_broken leaves them out): %s", len(broken)+more, text)
}

// openTasks returns the arguments of each task as JSON, or why the task is broken; a taskset.UnprovedError comes with
// the arguments. The caller calls closeSet after the last one.
func (m *Starter) openTasks(src taskSource) (tasks iter.Seq2[string, error], closeSet func(), err error) {
	if src.set == "" {
		return inlineTasks(src.inline), func() {}, nil
	}

	set, chosen, err := m.openSet(src)
	if err != nil {
		return nil, nil, err
	}

	// it was read only
	closeSet = func() { _ = set.Close() }

	// checks that cannot be read prove nothing, and stop only a producer that requires them
	checks, err := taskset.ReadChecks(m.TaskSets[src.set])
	if err != nil && src.requireChecked {
		closeSet()
		return nil, nil, err
	}

	return func(yield func(string, error) bool) {
		for _, i := range chosen {
			task, err := set.Task(i)

			var text string
			if err == nil {
				text, err = argumentsOf(task, checks, src.rollout)
			}

			if !yield(text, err) {
				return
			}
		}
	}, closeSet, nil
}

// argumentsOf returns the arguments of a task as JSON. The error is a taskset.UnprovedError if the task with the changes
// is not proved.
func argumentsOf(task taskset.Task, checks taskset.Checks, changes map[string]any) (string, error) {
	args := task.Arguments()

	text, err := json.Marshal(args)
	if err != nil {
		return "", err
	}

	taskset.Change(args, changes)

	return string(text), checks.Unproved(task, changes)
}

func inlineTasks(all []any) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for i, v := range all {
			text, err := json.Marshal(v)

			if _, ok := v.(map[string]any); !ok {
				err = fault.Field(fmt.Sprintf("tasks[%d]", i), "must be an object with arguments of run_rollout")
			}

			if !yield(string(text), err) {
				return
			}
		}
	}
}

func (m *Starter) openSet(src taskSource) (*taskset.Set, []int, error) {
	path, ok := m.TaskSets[src.set]
	if !ok {
		return nil, nil, fault.Field("task_set", "no task set %q is configured (task_sets in the configuration)",
			src.set)
	}

	sel := taskset.Selection{}
	if s := src.selection; s != nil {
		sel = taskset.Selection{Tasks: s.Tasks, Exclude: s.Exclude, Shard: s.Shard, Shards: s.Shards, Limit: s.Limit}
	}

	set, err := taskset.Open(path)
	if err != nil {
		return nil, nil, err
	}

	chosen, err := set.Select(sel)
	if err != nil {
		// the error of the selection is the one to report
		_ = set.Close()
		return nil, nil, err
	}

	return set, chosen, nil
}

// modelArguments are arguments that a task must not have. Above all the model endpoint is one for all
// tasks: its key is stored once.
var modelArguments = []string{
	"endpoint", "base_url", "api_key", "model", "model_key", "vllm_url", "hf_token", "rollout_id", "group_id",
	"on_disconnect",
}

// taskSpec resolves a task with the arguments of each rollout.
func (m *Starter) taskSpec(src taskSource, text string) (rollout.Spec, error) {
	dec := json.NewDecoder(bytes.NewReader([]byte(text)))
	dec.UseNumber()

	var args map[string]any
	if err := dec.Decode(&args); err != nil {
		return rollout.Spec{}, fault.Wrap(fault.Invalid, err, "task")
	}

	name, _ := args["task_id"].(string)
	for _, field := range modelArguments {
		if args[field] != nil {
			return rollout.Spec{}, fault.Field(field, "task %q: not allowed in a task: set it in rollout", name)
		}
	}

	taskset.Change(args, src.changes())

	if src.eval {
		args["purpose"] = string(rollout.PurposeEval)
		// these are for training; eval_sampling holds
		delete(args, "sampling")
	}

	spec, err := m.Tools.Spec(args)
	if err != nil {
		return spec, fault.Wrap(fault.Invalid, err, "task %q", name)
	}

	spec.ID, spec.GroupID, spec.Task.Set = "", "", src.set

	return spec, nil
}

// changes returns the arguments of each rollout, for an evaluation without the sampling parameters of training.
func (s taskSource) changes() map[string]any {
	changes := maps.Clone(s.rollout)

	if s.eval {
		// those at top level are the same as those in sampling
		for _, f := range reflect.VisibleFields(reflect.TypeFor[rollout.Sampling]()) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			delete(changes, name)
		}
	}

	return changes
}

// id returns the given id, or a new one that is short enough for the ids of its groups.
func (m *Starter) id(given string) string {
	if given != "" {
		return given
	}

	return strings.ReplaceAll(m.NewID(), "-", "")
}
