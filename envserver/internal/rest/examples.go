package rest

import (
	"fmt"
	"io/fs"
	"net/http"
	"path"

	"github.com/rolloutd/rolloutd/envserver/internal/api"
	"github.com/rolloutd/rolloutd/envserver/internal/httpio"
	"github.com/rolloutd/rolloutd/examples"
	"github.com/rolloutd/rolloutd/internal/taskset"
)

// example is a task of this program.
type example struct {
	Name string `json:"name"`

	// arguments of start_rollout, without those of a model
	Arguments map[string]any `json:"arguments"`
}

// exampleList is the answer to list_examples.
type exampleList struct {
	Examples []example `json:"examples"`
}

func (a *API) exampleRoutes() []api.Route {
	return []api.Route{
		api.Get("/examples", listExamples, &api.Operation{
			ID:      "list_examples",
			Tag:     taskSetTag,
			Summary: "List the example tasks of this program, each with its arguments of start_rollout",
			Answers: exampleList{},
		}),
	}
}

func listExamples(w http.ResponseWriter, _ *http.Request) {
	list, err := readExamples(examples.Tasks)
	httpio.WriteAnswer(w, list, err)
}

func readExamples(from fs.FS) (list exampleList, err error) {
	files, err := fs.Glob(from, "*.yaml")
	if err != nil {
		return list, err
	}

	for _, name := range files {
		task, err := readExample(from, name)
		if err != nil {
			return list, fmt.Errorf("example %s: %w", name, err)
		}

		name = name[:len(name)-len(path.Ext(name))]
		list.Examples = append(list.Examples, example{name, task.Arguments()})
	}

	return list, nil
}

func readExample(from fs.FS, name string) (taskset.Task, error) {
	file, err := from.Open(name)
	if err != nil {
		return taskset.Task{}, err
	}
	defer file.Close()

	return taskset.ReadYAML(file)
}
