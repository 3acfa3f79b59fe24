package rest

import (
	"io"
	"net/http"

	"github.com/rolloutd/rolloutd/envserver/internal/api"
	"github.com/rolloutd/rolloutd/envserver/internal/httpio"
)

const plainBytes api.Media = "application/octet-stream"

func (a *API) expertsRoute() api.Route {
	return finishedRoute(
		"/routed_experts",
		a.getExperts,
		"get_routed_experts",
		"Get the routed experts of a finished rollout's tokens: rows of numbers, whose places its sequences name. 404 if it has none",
		plainBytes,
	)
}

func (a *API) getExperts(w http.ResponseWriter, r *http.Request) {
	rows, err := a.blobs(r, "routed experts", "routed_experts")
	if err != nil {
		httpio.WriteRefusal(w, err)
		return
	}
	defer rows.Close()

	writeBody(w, plainBytes, func(w io.Writer) error {
		_, err := io.Copy(w, rows)
		return err
	})
}
