package rest

import (
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/rolloutd/rolloutd/envserver/internal/api"
	"github.com/rolloutd/rolloutd/envserver/internal/httpio"
	"github.com/rolloutd/rolloutd/envserver/internal/produce"
)

const taskSetTag = "Task Sets"

type taskSetRequest struct {
	Name string `path:"name" description:"name of the task set"`
}

type taskRequest struct {
	taskSetRequest
	Task string `query:"task" description:"name of the task"`
}

// taskSetList is the answer to list_task_sets.
type taskSetList struct {
	TaskSets []string `json:"task_sets"`
}

func (a *API) taskSetRoutes() []api.Route {
	refuses := api.EngineErrors(http.StatusNotFound, http.StatusUnprocessableEntity)

	return []api.Route{
		api.Get("/task_sets", a.listTaskSets, &api.Operation{
			ID: "list_task_sets", Tag: taskSetTag, Summary: "List the names of the configured task sets",
			Answers: taskSetList{}, Refuses: api.EngineErrors(),
		}),
		api.Get("/task_sets/{name}", a.listTasks, &api.Operation{
			ID: "list_tasks_of_set", Tag: taskSetTag, Summary: "List the first 1000 tasks of a task set",
			Reads: taskSetRequest{}, Answers: produce.SetTasks{}, Refuses: refuses,
		}),
		api.Get("/task_sets/{name}/arguments", a.getTask, &api.Operation{
			ID: "get_arguments_of_task", Tag: taskSetTag, Summary: "Get the arguments of start_rollout that a task of a set has",
			Reads: taskRequest{}, Answers: map[string]any{}, Refuses: refuses,
		}),
	}
}

func (a *API) listTaskSets(w http.ResponseWriter, _ *http.Request) {
	httpio.WriteJSON(w, http.StatusOK, taskSetList{a.Produce.Sets()})
}

func (a *API) listTasks(w http.ResponseWriter, r *http.Request) {
	tasks, err := a.Produce.SetTasks(chi.URLParam(r, "name"))
	httpio.WriteAnswer(w, tasks, err)
}

func (a *API) getTask(w http.ResponseWriter, r *http.Request) {
	args, err := a.Produce.TaskArguments(chi.URLParam(r, "name"), r.URL.Query().Get("task"))
	httpio.WriteAnswer(w, args, err)
}
