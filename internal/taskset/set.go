package taskset

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// Bounds of a set.
const (
	MaxTasks = 1_000_000

	// files and folders that are visited
	maxEntries = 4 * MaxTasks

	// bound of folders within folders
	maxDepth = 8
)

// Set is an ordered collection of tasks. Close releases its folder. It is safe for concurrent use.
type Set struct {
	path  string
	close func() error
	items []item

	// by name
	index map[string]int
}

// item is one task of a set that has not been read yet.
type item struct {
	name, source string
	read         func() (Task, error)

	// the error of Task; nil: call read
	err error
}

// Open finds the tasks at path: a file of JSON lines (.jsonl), one task file (.yaml), or a folder of task
// files and Harbor tasks. The order is that of lines, or of names. The error's kind is Invalid, or
// NotFound; a broken task is no error before it is read.
func Open(path string) (*Set, error) {
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fault.Wrap(fault.NotFound, err, "task set")
	case err != nil:
		return nil, fault.Wrap(fault.Invalid, err, "task set")
	}

	s := &Set{path: path, close: func() error { return nil }, index: map[string]int{}}
	switch kind := strings.ToLower(filepath.Ext(path)); {
	case st.IsDir():
		err = s.openFolder()
	case kind == ".jsonl" || kind == ".ndjson":
		err = s.openLines()
	case kind == ".yaml" || kind == ".yml":
		s.addTask(item{
			name:   strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)),
			source: path,
			read:   func() (Task, error) { return OpenFile(path) },
		})
	default:
		err = fault.New(fault.Invalid,
			"task set %s: must be a folder, a file of JSON lines (.jsonl) or a task file (.yaml)",
			path)
	}

	if err == nil && len(s.items) == 0 {
		err = fault.New(fault.Invalid,
			"task set %s has no tasks: it must have task files (.yaml), Harbor tasks (task.toml) or JSON lines",
			path)
	}

	if err != nil {
		return nil, errors.Join(err, s.Close())
	}

	return s, nil
}

// Close closes the files of the set. Its tasks cannot be read afterwards.
func (s *Set) Close() error { return s.close() }

// Len is the number of tasks.
func (s *Set) Len() int { return len(s.items) }

// Name is the name of task i.
func (s *Set) Name(i int) string { return s.items[i].name }

// Source says where task i is, for messages.
func (s *Set) Source(i int) string { return s.items[i].source }

// Find returns the index of the task of that name.
func (s *Set) Find(name string) (int, bool) {
	i, ok := s.index[name]
	return i, ok
}

// Task reads task i. If the file has no id, the id is the name. An error names the file and the field.
func (s *Set) Task(i int) (Task, error) {
	it := s.items[i]
	if it.err != nil {
		return Task{}, it.err
	}

	t, err := it.read()
	if err == nil {
		err = at(it.source, t.findUploads(filepath.Dir(it.source)))
	}

	if err != nil {
		return Task{}, fault.Wrap(fault.Invalid, err, "")
	}

	t.Name, t.Source = it.name, it.source
	if t.ID == "" {
		t.ID = it.name
	}

	return t, nil
}

// Tasks reads the tasks of these indexes, in their order. A broken one is an error.
func (s *Set) Tasks(chosen []int) ([]Task, error) {
	tasks := make([]Task, 0, len(chosen))

	for _, i := range chosen {
		t, err := s.Task(i)
		if err != nil {
			return nil, err
		}

		tasks = append(tasks, t)
	}

	return tasks, nil
}

// addTask appends a task. A second task of the same name is kept as a broken task.
func (s *Set) addTask(it item) {
	if first, ok := s.index[it.name]; ok && it.err == nil {
		it.err = fault.New(fault.Invalid, "%s: id: %q is also the id of the task at %s",
			it.source, it.name, s.items[first].source)
	} else if !ok {
		s.index[it.name] = len(s.items)
	}

	s.items = append(s.items, it)
}

// full returns an error if the set has MaxTasks tasks.
func (s *Set) full() error {
	if len(s.items) < MaxTasks {
		return nil
	}

	return fault.New(fault.Invalid, "task set %s has more than %d tasks", s.path, MaxTasks)
}

func at(source string, err error) error {
	if err == nil {
		return nil
	}

	return fmt.Errorf("%s: %w", source, err)
}
