package config

import (
	"maps"
	"regexp"
	"slices"
)

// TaskSet is a set of tasks that clients name; docs/training.md has the forms of sets.
type TaskSet struct {
	// a folder, a file of JSON lines or a task file, on each host that serves
	Path string `yaml:"path"`
}

var taskSetName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)

func (c Config) validateTaskSets(p *problems) {
	for _, name := range slices.Sorted(maps.Keys(c.TaskSets)) {
		p.check(taskSetName.MatchString(name), "task_sets."+name,
			"the name must be 1 to 64 letters, digits, '_', '.' or '-', beginning with a letter or digit")
		p.check(c.TaskSets[name].Path != "", "task_sets."+name+".path", "must be the path of a folder or a file")
	}
}
