package rest

import (
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/rolloutd/rolloutd/envserver/internal/access"
	"github.com/rolloutd/rolloutd/envserver/internal/api"
	"github.com/rolloutd/rolloutd/envserver/internal/httpio"
	"github.com/rolloutd/rolloutd/internal/host/fleet"
)

const hostTag = "Hosts"

// hostRoutes returns the routes about hosts, for operators.
func (a *API) hostRoutes() []api.Route {
	if a.Hosts == nil {
		return nil
	}

	drain := func(path, id, summary string, on bool) api.Route {
		return api.Post("/hosts/{name}/"+path, operators(a.drainHost(on)), &api.Operation{
			ID:      id,
			Tag:     hostTag,
			Summary: summary,
			Reads:   hostRequest{},
			Answers: fleet.Host{},
			Refuses: api.EngineErrors(http.StatusForbidden, http.StatusNotFound),
		})
	}

	return []api.Route{
		api.Get("/hosts", operators(a.listHosts), &api.Operation{
			ID:      "list_hosts",
			Tag:     hostTag,
			Summary: "List the hosts seen within the last day (operators only)",
			Answers: fleet.Page{},
			Refuses: api.EngineErrors(http.StatusForbidden),
		}),
		drain("drain", "drain_host", "Stop new sandboxes on a host; running ones finish (operators only)", true),
		drain("resume", "resume_host", "Allow new sandboxes on a host again (operators only)", false),
	}
}

type hostRequest struct {
	Name string `path:"name" description:"name of the host"`
}

// operators refuses callers that are not operators.
func operators(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if access.CallerOf(r.Context()).Scope != access.ScopeOperator {
			httpio.WriteDetail(w, http.StatusForbidden, "the token of an operator is needed")
			return
		}

		next(w, r)
	}
}

func (a *API) listHosts(w http.ResponseWriter, r *http.Request) {
	page, err := a.Hosts.Hosts(r.Context())
	httpio.WriteAnswer(w, page, err)
}

func (a *API) drainHost(on bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		h, err := a.Hosts.Drain(r.Context(), chi.URLParam(r, "name"), on)
		httpio.WriteAnswer(w, h, err)
	}
}
