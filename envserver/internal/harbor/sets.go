package harbor

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/taskset"
	"github.com/rolloutd/rolloutd/internal/text"
)

// sets are the task sets by split. A set is opened once and not read again, because the index of a task is
// its identity.
type sets struct {
	names []string
	paths map[string]string

	mu   sync.Mutex
	open map[string]*taskset.Set
}

func newSets(paths map[string]string, first string) sets {
	names := slices.Sorted(maps.Keys(paths))
	if i := slices.Index(names, first); i > 0 {
		names = slices.Insert(slices.Delete(names, i, i+1), 0, first)
	}

	return sets{names: names, paths: paths, open: map[string]*taskset.Set{}}
}

// find returns the set of a split and the split's name; "" means the first split.
func (s *sets) find(split string) (*taskset.Set, string, error) {
	switch {
	case len(s.names) == 0:
		return nil, "", fault.New(fault.NotFound,
			"this server has no task sets: name some in task_sets of its configuration, or give the argument task")
	case split == "":
		split = s.names[0]
	case !slices.Contains(s.names, split):
		return nil, "", fault.New(fault.NotFound, "unknown split %q: must be one of %s",
			text.Head(split, maxName), strings.Join(s.names, ", "))
	}

	s.mu.Lock()
	defer s.mu.Unlock()

	if set := s.open[split]; set != nil {
		return set, split, nil
	}

	set, err := taskset.Open(s.paths[split])
	if err != nil {
		return nil, "", err
	}
	// until the process ends
	s.open[split] = set

	return set, split, nil
}

// maxName bounds a client's name in an error, in characters.
const maxName = 100

// task reads a task by its index.
func (s *sets) task(split string, index int) (taskset.Task, string, error) {
	set, split, err := s.find(split)
	if err != nil {
		return taskset.Task{}, "", err
	}

	if index < 0 || index >= set.Len() {
		return taskset.Task{}, "", fault.Field("task_index", "task index %d out of range (%d tasks)", index, set.Len())
	}

	task, err := set.Task(index)

	return task, split, err
}

// Split is a task set in the Task API.
type Split struct {
	Name  string `json:"name"`
	Tasks int    `json:"num_tasks"`
	Error string `json:"error,omitempty" description:"why the task set cannot be opened"`
}

// characters
const maxSplitError = 200

func (s *sets) splits() []Split {
	all := []Split{}

	for _, name := range s.names {
		split := Split{Name: name}
		if set, _, err := s.find(name); err != nil {
			split.Error = text.Head(err.Error(), maxSplitError)
		} else {
			split.Tasks = set.Len()
		}

		all = append(all, split)
	}

	return all
}

// Ref names a task, with the beginning of its instruction.
type Ref struct {
	Index       int    `json:"index"`
	TaskID      string `json:"task_id"`
	TaskName    string `json:"task_name"`
	Dataset     string `json:"dataset"`
	Instruction string `json:"instruction"`
}

// maxInstruction bounds the instruction of a Ref, in characters. Clients look a task up by this text.
const maxInstruction = 4000

// ref reads a task. A broken task keeps its index; its instruction contains the error.
func (s *sets) ref(set *taskset.Set, split string, index int) Ref {
	r := Ref{Index: index, TaskID: set.Name(index), TaskName: set.Name(index), Dataset: split}

	task, err := set.Task(index)
	if err != nil {
		r.Instruction = text.Head(fmt.Sprintf("[broken task: %v]", err), maxInstruction)
		return r
	}

	r.TaskID = task.ID

	r.Instruction = strings.TrimSpace(task.Instruction)
	if short := text.Head(r.Instruction, maxInstruction); short != r.Instruction {
		r.Instruction = short + "\n…"
	}

	return r
}

// maxRefs bounds the instructions of one answer, in bytes.
const maxRefs = 64 << 20

// refs reads the tasks from start to stop. Negative bounds count from the end; nil is no bound.
func (s *sets) refs(split string, start, stop *int) ([]Ref, error) {
	set, split, err := s.find(split)
	if err != nil {
		return nil, err
	}

	from, to := slice(set.Len(), start, stop)
	all, size := []Ref{}, 0

	for i := from; i < to; i++ {
		r := s.ref(set, split, i)
		if size += len(r.Instruction) + len(r.TaskID); size > maxRefs {
			return nil, fault.New(fault.Exhausted,
				"the tasks have more than %d MiB of instructions: ask for a range of them",
				maxRefs>>20)
		}

		all = append(all, r)
	}

	return all, nil
}

// slice returns the indices of Python's list[start:stop] in a list of n.
func slice(n int, start, stop *int) (from, to int) {
	bound := func(v *int, open int) int {
		switch {
		case v == nil:
			return open
		case *v < 0:
			return max(*v+n, 0)
		default:
			return min(*v, n)
		}
	}

	return bound(start, 0), bound(stop, n)
}
