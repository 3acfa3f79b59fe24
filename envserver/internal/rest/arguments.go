package rest

import (
	"context"
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/rolloutd/rolloutd/envserver/internal/httpio"
	"github.com/rolloutd/rolloutd/envserver/internal/tools"
)

// argumentsAnswer is the answer to get_arguments.
type argumentsAnswer struct {
	Arguments tools.RolloutArgs `json:"arguments"`

	// LeftOut are arguments that the rollout had and that nobody can read back.
	LeftOut []string `json:"left_out,omitempty"`
}

func (a *API) getArguments(w http.ResponseWriter, r *http.Request) {
	answer, err := a.argumentsOf(r.Context(), chi.URLParam(r, "id"))
	httpio.WriteAnswer(w, answer, err)
}

func (a *API) argumentsOf(ctx context.Context, id string) (answer argumentsAnswer, err error) {
	spec, err := a.Rollouts.Spec(ctx, id)
	if err != nil {
		return answer, err
	}

	files, err := a.Rollouts.TaskFiles(ctx, id)
	if files != nil {
		spec.Task.Files, spec.Task.FilesRef = files, nil
	}

	answer.Arguments, answer.LeftOut = a.Env.Tools.Arguments(spec)

	return answer, err
}
