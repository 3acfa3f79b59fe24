package harbor

import (
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"

	"github.com/rolloutd/rolloutd/envserver/internal/api"
	"github.com/rolloutd/rolloutd/envserver/internal/httpio"
	"github.com/rolloutd/rolloutd/envserver/internal/reply"
	"github.com/rolloutd/rolloutd/envserver/internal/validation"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/text"
)

const tag = "Task API"

type environmentRequest struct {
	Environment string `path:"environment" description:"harbor_env, in any case"`
}

type splitRequest struct {
	environmentRequest
	Split string `json:"split" required:"true" description:"name of the task set; empty: the first one"`

	_ struct{} `additionalProperties:"true"`
}

type taskRequest struct {
	environmentRequest
	Split string `json:"split" required:"true" description:"name of the task set; empty: the first one"`
	Index int    `json:"index" required:"true" description:"of the task in its set"`

	_ struct{} `additionalProperties:"true"`
}

type rangeRequest struct {
	environmentRequest
	Split string `json:"split" required:"true" description:"name of the task set; empty: the first one"`
	Start *int   `json:"start" description:"first index; negative: from the end"`
	Stop  *int   `json:"stop" description:"index behind the last; negative: from the end"`

	_ struct{} `additionalProperties:"true"`
}

type countAnswer struct {
	Tasks int `json:"num_tasks"`
}

type tasksAnswer struct {
	Tasks       []Ref  `json:"tasks" nullable:"false"`
	Environment string `json:"env_name"`
}

type rangeAnswer struct {
	Tasks []Ref `json:"tasks" nullable:"false"`
}

type taskAnswer struct {
	Task Ref `json:"task"`
}

// taskAPI serves the Task API.
type taskAPI struct {
	sets   *sets
	bodies httpio.Bodies
}

// Routes returns the routes of the Task API. Its handlers read requests through bodies.
func (e *Env) Routes(bodies httpio.Bodies) []api.Route {
	a := taskAPI{&e.sets, bodies}
	refuses := api.BodyErrors(http.StatusNotFound, http.StatusUnprocessableEntity, http.StatusTooManyRequests)
	post := func(path string, handle http.HandlerFunc, id, summary string, reads, answers any) api.Route {
		return api.Post("/{environment}/"+path, handle, &api.Operation{
			ID:        id,
			Tag:       tag,
			Summary:   summary,
			Reads:     reads,
			NeedsBody: true,
			Answers:   answers,
			Refuses:   refuses,
		})
	}

	return []api.Route{
		api.Get("/list_environments", listEnvironments, &api.Operation{
			ID:      "list_environments",
			Tag:     tag,
			Summary: "List the environments that have tasks",
			Answers: []any{[]string{}},
		}),
		api.Get("/{environment}/splits", a.getSplits, &api.Operation{
			ID:      "list_splits",
			Tag:     tag,
			Summary: "List the task sets",
			Reads:   environmentRequest{},
			Answers: []any{[]Split{}},
			Refuses: []int{http.StatusNotFound},
		}),
		post("num_tasks", a.postCount, "num_tasks", "How many tasks a set has", splitRequest{}, countAnswer{}),
		post("tasks", a.postTasks, "list_tasks", "All tasks of a set", splitRequest{}, tasksAnswer{}),
		post("task", a.postTask, "get_task", "One task of a set", taskRequest{}, taskAnswer{}),
		post("task_range", a.postRange, "get_task_range", "Some tasks of a set", rangeRequest{}, rangeAnswer{}),
	}
}

func listEnvironments(w http.ResponseWriter, _ *http.Request) {
	httpio.WriteJSON(w, http.StatusOK, []string{Name})
}

func (a taskAPI) getSplits(w http.ResponseWriter, r *http.Request) {
	if checkEnvironment(w, r) {
		httpio.WriteJSON(w, http.StatusOK, a.sets.splits())
	}
}

// checkEnvironment reports whether a request is for this environment; otherwise it answers the request.
func checkEnvironment(w http.ResponseWriter, r *http.Request) bool {
	name := chi.URLParam(r, "environment")
	if strings.EqualFold(name, Name) {
		return true
	}

	httpio.WriteDetail(w, http.StatusNotFound, "unknown environment '"+text.Head(name, maxName)+"'")

	return false
}

// read reads a body; ask reads its members. False: the request has been answered.
func (a taskAPI) read(w http.ResponseWriter, r *http.Request, ask func(*validation.Checker)) bool {
	data, release, ok := a.bodies.Read(w, r)
	if !ok {
		return false
	}
	defer release()

	if !checkEnvironment(w, r) {
		return false
	}

	obj, found := httpio.Object(data)
	if obj == nil && found == nil {
		found = validation.List{{Type: "missing", Loc: []any{"body"}, Msg: "Field required"}}
	}

	if found == nil {
		c := validation.Check(obj, "body")
		ask(c)
		found = c.Found(false)
	}

	if len(found) > 0 {
		httpio.WriteInvalid(w, found)
		return false
	}

	return true
}

func (a taskAPI) postCount(w http.ResponseWriter, r *http.Request) {
	var split string

	if !a.read(w, r, func(c *validation.Checker) { split = c.String("split") }) {
		return
	}

	set, _, err := a.sets.find(split)
	if err != nil {
		httpio.WriteRefusal(w, err)
		return
	}

	httpio.WriteJSON(w, http.StatusOK, countAnswer{set.Len()})
}

func (a taskAPI) postTasks(w http.ResponseWriter, r *http.Request) {
	var split string
	if a.read(w, r, func(c *validation.Checker) { split = c.String("split") }) {
		all, err := a.sets.refs(split, nil, nil)
		httpio.WriteAnswer(w, tasksAnswer{all, Name}, err)
	}
}

func (a taskAPI) postRange(w http.ResponseWriter, r *http.Request) {
	var in rangeRequest
	if a.read(w, r, func(c *validation.Checker) {
		in.Split, in.Start, in.Stop = c.String("split"), c.Int("start", false), c.Int("stop", false)
	}) {
		all, err := a.sets.refs(in.Split, in.Start, in.Stop)
		httpio.WriteAnswer(w, rangeAnswer{all}, err)
	}
}

func (a taskAPI) postTask(w http.ResponseWriter, r *http.Request) {
	var (
		split string
		index *int
	)

	if !a.read(w, r, func(c *validation.Checker) { split, index = c.String("split"), c.Int("index", true) }) {
		return
	}

	set, split, err := a.sets.find(split)
	switch {
	case err != nil:
		httpio.WriteRefusal(w, err)
	case *index < 0 || *index >= set.Len():
		httpio.WriteJSON(w, http.StatusBadRequest, reply.Problem{Detail: "Invalid task index", Kind: fault.Invalid})
	default:
		httpio.WriteJSON(w, http.StatusOK, taskAnswer{a.sets.ref(set, split, *index)})
	}
}
