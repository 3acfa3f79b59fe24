package produce

import (
	"maps"
	"slices"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/taskset"
)

// maxNames bounds the tasks of a set that are listed.
const maxNames = 1000

// SetTasks are the names of the first tasks of a set.
type SetTasks struct {
	Tasks []string `json:"tasks"`

	// Count is the number of all tasks.
	Count int `json:"count"`
}

// Sets lists the names of the configured task sets.
func (m *Starter) Sets() []string {
	return append([]string{}, slices.Sorted(maps.Keys(m.TaskSets))...)
}

// SetTasks lists tasks of a configured set; fault.NotFound for an unknown one.
func (m *Starter) SetTasks(name string) (SetTasks, error) {
	list := SetTasks{Tasks: []string{}}

	err := m.withSet(name, func(set *taskset.Set) error {
		list.Count = set.Len()
		for i := range min(list.Count, maxNames) {
			list.Tasks = append(list.Tasks, set.Name(i))
		}

		return nil
	})

	return list, err
}

// TaskArguments returns the arguments of start_rollout that a task of a configured set has.
func (m *Starter) TaskArguments(name, task string) (args map[string]any, err error) {
	err = m.withSet(name, func(set *taskset.Set) error {
		i, ok := set.Find(task)
		if !ok {
			return fault.New(fault.NotFound, "the task set %q has no task %q", name, task)
		}

		t, err := set.Task(i)
		args = t.Arguments()

		return err
	})

	return args, err
}

func (m *Starter) withSet(name string, use func(*taskset.Set) error) error {
	path, ok := m.TaskSets[name]
	if !ok {
		return fault.New(fault.NotFound, "no task set %q is configured", name)
	}

	set, err := taskset.Open(path)
	if err != nil {
		return err
	}
	defer set.Close()

	return use(set)
}
