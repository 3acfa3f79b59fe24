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
	a.writeFile(w, r, "routed experts", "routed_experts")
}

func (a *API) imagesRoute() api.Route {
	return finishedRoute(
		"/images",
		a.getImages,
		"get_images",
		"Get the images of a finished rollout's prompts: one after another, at the places that its sequences and turns name. 404 if it has none",
		plainBytes,
	)
}

func (a *API) getImages(w http.ResponseWriter, r *http.Request) {
	a.writeFile(w, r, "images", "images")
}

// writeFile writes a blob of a rollout.
func (a *API) writeFile(w http.ResponseWriter, r *http.Request, what, name string) {
	file, err := a.blobs(r, what, name)
	if err != nil {
		httpio.WriteRefusal(w, err)
		return
	}
	defer file.Close()

	writeBody(w, plainBytes, func(w io.Writer) error {
		_, err := io.Copy(w, file)
		return err
	})
}
