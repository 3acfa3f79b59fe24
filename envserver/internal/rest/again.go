package rest

import (
	"net/http"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"github.com/rolloutd/rolloutd/envserver/internal/access"
	"github.com/rolloutd/rolloutd/envserver/internal/api"
	"github.com/rolloutd/rolloutd/envserver/internal/httpio"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// againRequest asks for another rollout of the same task.
type againRequest struct {
	rolloutRequest
	NewID string `json:"rollout_id" description:"id of the new rollout, chosen by the client (idempotency key). Default: a random one"`
}

func (a *API) againRoute() api.Route {
	return api.Post("/rollouts/{id}/again", a.postAgain, &api.Operation{
		ID:      "start_rollout_again",
		Tag:     tag,
		Summary: "Start a rollout like one of the caller's: the same task, agent, model and limits, in no group",
		Reads:   againRequest{},
		Answers: rollout.State{},
		Status:  http.StatusAccepted,
		Refuses: api.BodyErrors(
			api.EngineErrors(http.StatusUnprocessableEntity, http.StatusNotFound, http.StatusConflict)...),
	})
}

func (a *API) postAgain(w http.ResponseWriter, r *http.Request) {
	args, ok := a.arguments(w, r)
	if !ok {
		return
	}

	spec, err := a.specAgain(r, args)
	if err != nil {
		httpio.WriteRefusal(w, err)
		return
	}

	state, err := a.Rollouts.Start(r.Context(), spec)
	if err != nil {
		httpio.WriteRefusal(w, err)
		return
	}

	httpio.WriteJSON(w, http.StatusAccepted, state)
}

// specAgain is the specification of another rollout like that of a request. It may have a model's key, which nobody else
// may use.
func (a *API) specAgain(r *http.Request, args map[string]any) (rollout.Spec, error) {
	spec, err := a.Rollouts.Spec(r.Context(), chi.URLParam(r, "id"))
	if err != nil {
		return spec, err
	}

	if caller := access.CallerOf(r.Context()).Name; spec.Owner != caller {
		return spec, fault.New(fault.Conflict, "rollout %s was started with another token: start it again with that one", spec.ID)
	}

	for name, value := range args {
		id, isText := value.(string)
		if name != "rollout_id" || !isText {
			return spec, fault.Field(name, "must be rollout_id, a string: there is no other argument")
		}

		spec.ID = id
	}

	if args["rollout_id"] == nil {
		spec.ID = uuid.NewString()
	}

	spec.GroupID = ""

	return spec, rollout.CheckID(spec.ID)
}
