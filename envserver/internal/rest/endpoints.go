package rest

import (
	"context"
	"net/http"
	"slices"

	"github.com/go-chi/chi/v5"

	"github.com/rolloutd/rolloutd/envserver/internal/access"
	"github.com/rolloutd/rolloutd/envserver/internal/api"
	"github.com/rolloutd/rolloutd/envserver/internal/httpio"
	"github.com/rolloutd/rolloutd/internal/catalog"
)

const endpointTag = "Endpoints"

// Endpoints is the edge's interface of the model endpoints that the server knows by name.
type Endpoints interface {
	// Endpoints probes them.
	Endpoints(ctx context.Context) []catalog.Status

	// Load asks the gateway; fault.Unavailable: it does not answer, and fault.NotFound: there is no such endpoint.
	Load(ctx context.Context, name string) (catalog.Load, error)
}

type endpointRequest struct {
	Name string `path:"name" description:"name of the endpoint, or its host and port"`
}

// endpointList is the answer to list_endpoints.
type endpointList struct {
	Endpoints []catalog.Status `json:"endpoints"`
}

func (a *API) endpointRoutes() []api.Route {
	if a.Endpoints == nil {
		return nil
	}

	return []api.Route{
		api.Get("/endpoints", a.listEndpoints, &api.Operation{
			ID:      "list_endpoints",
			Tag:     endpointTag,
			Summary: "List the model endpoints that the server knows by name, with a probe of each, which makes no model call",
			Answers: endpointList{},
			Refuses: api.EngineErrors(),
		}),
		api.Get("/endpoints/{name}", operators(a.getEndpoint), &api.Operation{
			ID:      "get_endpoint",
			Tag:     endpointTag,
			Summary: "Get what the gateway knows of an endpoint: its calls and the latest audit (operators only). 503 if no gateway answers",
			Reads:   endpointRequest{},
			Answers: catalog.Load{},
			Refuses: api.EngineErrors(http.StatusForbidden, http.StatusNotFound),
		}),
	}
}

// listEndpoints tells only operators where the endpoints are.
func (a *API) listEndpoints(w http.ResponseWriter, r *http.Request) {
	all := slices.Clone(a.Endpoints.Endpoints(r.Context()))

	if access.CallerOf(r.Context()).Scope != access.ScopeOperator {
		for i := range all {
			all[i].URL, all[i].Probe = "", "does not answer"
			if all[i].Answers {
				all[i].Probe = "answers"
			}
		}
	}

	httpio.WriteJSON(w, http.StatusOK, endpointList{all})
}

func (a *API) getEndpoint(w http.ResponseWriter, r *http.Request) {
	load, err := a.Endpoints.Load(r.Context(), chi.URLParam(r, "name"))
	httpio.WriteAnswer(w, load, err)
}
