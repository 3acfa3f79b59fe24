package rest

import (
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/rolloutd/rolloutd/envserver/internal/tools"
)

// argumentsAnswer is the answer to get_arguments.
type argumentsAnswer struct {
	Arguments tools.RolloutArgs `json:"arguments"`

	// LeftOut are arguments that the rollout had and that nobody can read back.
	LeftOut []string `json:"left_out,omitempty"`
}

func (a *API) getArguments(w http.ResponseWriter, r *http.Request) {
	spec, err := a.Rollouts.Spec(r.Context(), chi.URLParam(r, "id"))

	var answer argumentsAnswer
	if err == nil {
		answer.Arguments, answer.LeftOut = a.Env.Tools.Arguments(spec)
	}

	answerWith(w, answer, err)
}
