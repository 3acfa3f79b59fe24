package rest

import (
	"encoding/json"
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/rolloutd/rolloutd/envserver/internal/api"
	"github.com/rolloutd/rolloutd/envserver/internal/httpio"
	"github.com/rolloutd/rolloutd/envserver/internal/reply"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// scoreRequest is a score.
type scoreRequest struct {
	rolloutRequest
	Score float64 `json:"score" required:"true" description:"the reward, within reward_range where the task has one"`
}

func (a *API) scoreRoutes() []api.Route {
	if a.Episodes == nil {
		return nil
	}

	return []api.Route{
		api.Post("/rollouts/{id}/score", a.scoreRollout, &api.Operation{
			ID:        "score_rollout",
			Tag:       tag,
			Summary:   "Score a rollout with an external verifier, while it waits for its score",
			Reads:     scoreRequest{},
			NeedsBody: true,
			Answers:   reply.ScoreAnswer{},
			Refuses: api.BodyErrors(
				api.EngineErrors(http.StatusUnprocessableEntity, http.StatusNotFound, http.StatusConflict)...),
		}),
	}
}

func (a *API) scoreRollout(w http.ResponseWriter, r *http.Request) {
	args, ok := a.arguments(w, r)
	if !ok {
		return
	}

	number, _ := args["score"].(json.Number)

	score, err := number.Float64()
	if err != nil {
		httpio.WriteRefusal(w, fault.Field("score", "must be a finite number"))
		return
	}

	id := chi.URLParam(r, "id")
	err = a.Episodes.Score(r.Context(), id, rollout.Score{Score: score})
	answerWith(w, reply.ScoreAnswer{RolloutID: id, Score: score}, err)
}
