package rest

import (
	"context"
	"maps"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"github.com/rolloutd/rolloutd/envserver/internal/api"
	"github.com/rolloutd/rolloutd/envserver/internal/httpio"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// regradeRequest asks for a regrade.
type regradeRequest struct {
	rolloutRequest
	Task      map[string]any `json:"task" description:"the task with the verifier as it is now: arguments of start_rollout. Arguments of the agent and the model have no effect. Default: the task that the rollout was started with"`
	Apply     bool           `json:"apply" description:"true: the grade becomes the rollout's, and its group's statistics follow; the first grade stays in grading.before"`
	RegradeID string         `json:"regrade_id" description:"id chosen by the client (idempotency key), 1 to 16 lower-case letters or digits: a repeated id returns the same regrade"`
}

type regradeStateRequest struct {
	rolloutRequest
	RegradeID string  `path:"regrade_id" description:"id of the regrade"`
	WaitS     float64 `query:"wait_s" minimum:"0" maximum:"60" default:"0" description:"longest wait for the end of the regrade, in seconds"`
}

// maxRegradeWait bounds a request that waits for a regrade, in seconds.
const maxRegradeWait = 60

func (a *API) regradeRoutes() []api.Route {
	if a.Regrades == nil {
		return nil
	}

	return []api.Route{
		api.Post("/rollouts/{id}/regrade", a.postRegrade, &api.Operation{
			ID:        "regrade_rollout",
			Tag:       tag,
			Summary:   "Grade the saved work of a finished rollout again, by the verifier of a task as it is now. 409 if that is not possible",
			Reads:     regradeRequest{},
			NeedsBody: true,
			Answers:   rollout.Regrade{},
			Status:    http.StatusAccepted,
			Refuses: api.BodyErrors(
				api.EngineErrors(http.StatusUnprocessableEntity, http.StatusNotFound, http.StatusConflict)...),
		}),
		rolloutRoute("/regrades", a.listRegrades, "list_regrades", "List the regrades of a rollout that have ended, oldest first", rollout.Regrades{}),
		api.Get("/rollouts/{id}/regrades/{regrade_id}", a.getRegrade, &api.Operation{
			ID:      "get_regrade",
			Tag:     tag,
			Summary: "Get a regrade. It has finished_at once it has ended",
			Reads:   regradeStateRequest{},
			Answers: rollout.Regrade{},
			Refuses: api.EngineErrors(http.StatusUnprocessableEntity, http.StatusNotFound),
		}),
	}
}

func (a *API) postRegrade(w http.ResponseWriter, r *http.Request) {
	args, ok := a.arguments(w, r)
	if !ok {
		return
	}

	req, err := a.regradeOf(r.Context(), chi.URLParam(r, "id"), args)
	if err != nil {
		httpio.WriteRefusal(w, err)
		return
	}

	regrade, err := a.Regrades.Regrade(r.Context(), chi.URLParam(r, "id"), req)
	if err != nil {
		httpio.WriteRefusal(w, err)
		return
	}

	httpio.WriteJSON(w, http.StatusAccepted, regrade)
}

// regradeOf reads the arguments of a regrade of a rollout. Its task needs no model.
func (a *API) regradeOf(ctx context.Context, rolloutID string, args map[string]any) (rollout.RegradeRequest, error) {
	for name := range args {
		if name != "task" && name != "apply" && name != "regrade_id" {
			return rollout.RegradeRequest{}, fault.Field(name, "there is no such argument: must be task, apply or regrade_id")
		}
	}

	given, ok := args["task"].(map[string]any)
	if !ok && args["task"] != nil {
		return rollout.RegradeRequest{}, fault.Field("task", "must be an object with arguments of start_rollout")
	}

	apply, ok := args["apply"].(bool)
	if !ok && args["apply"] != nil {
		return rollout.RegradeRequest{}, fault.Field("apply", "must be true or false")
	}

	id, ok := args["regrade_id"].(string)
	if !ok && args["regrade_id"] != nil {
		return rollout.RegradeRequest{}, fault.Field("regrade_id", "must be a string")
	}

	if id == "" {
		random := strings.ReplaceAll(uuid.NewString(), "-", "")
		id = random[:16]
	}

	spec, err := a.regradedTask(ctx, rolloutID, given)

	return rollout.RegradeRequest{ID: id, Task: spec, Apply: apply}, err
}

// regradedTask is the task of a regrade; given nil: the one that the rollout was started with.
func (a *API) regradedTask(ctx context.Context, rolloutID string, given map[string]any) (rollout.Spec, error) {
	if given == nil {
		return a.Rollouts.Spec(ctx, rolloutID)
	}

	task := maps.Clone(given)
	for _, ofRollout := range []string{"rollout_id", "react", "endpoint", "base_url", "model_key", "api_key"} {
		delete(task, ofRollout)
	}

	task["agent"] = rollout.AgentNop

	return a.Env.Tools.Spec(task)
}

func (a *API) listRegrades(w http.ResponseWriter, r *http.Request) {
	all, err := a.Regrades.Regrades(r.Context(), chi.URLParam(r, "id"))
	httpio.WriteAnswer(w, all, err)
}

func (a *API) getRegrade(w http.ResponseWriter, r *http.Request) {
	var wait float64

	if text := r.URL.Query().Get("wait_s"); text != "" {
		var err error

		wait, err = strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(wait) || wait < 0 || wait > maxRegradeWait {
			httpio.WriteRefusal(w, fault.Field("wait_s", "must be a number from 0 to %d, got %q", maxRegradeWait, text))
			return
		}
	}

	ctx, left := a.Context(r)
	defer left()

	ctx, cancel := context.WithTimeout(ctx, time.Duration(wait*float64(time.Second)))
	defer cancel()

	regrade, err := a.Regrades.WaitRegrade(ctx, chi.URLParam(r, "id"), chi.URLParam(r, "regrade_id"))
	httpio.WriteAnswer(w, regrade, err)
}
