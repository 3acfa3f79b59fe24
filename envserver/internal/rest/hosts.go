package rest

import (
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/rolloutd/rolloutd/envserver/internal/access"
	"github.com/rolloutd/rolloutd/envserver/internal/api"
	"github.com/rolloutd/rolloutd/envserver/internal/httpio"
	"github.com/rolloutd/rolloutd/internal/fleet"
)

const hostTag = "Hosts"

// hostRoutes show operators the hosts of the deployment.
func (a *API) hostRoutes() []api.Route {
	if a.Hosts == nil {
		return nil
	}
	drain := func(path, id, summary string, on bool) api.Route {
		return api.Post("/hosts/{name}/"+path, operators(a.drainHost(on)), &api.Operation{ID: id, Tag: hostTag, Summary: summary,
			Reads: hostRequest{}, Answers: fleet.Host{}, Refuses: api.Unserved(http.StatusForbidden, http.StatusNotFound)})
	}
	return []api.Route{
		api.Get("/hosts", operators(a.listHosts), &api.Operation{ID: "list_hosts", Tag: hostTag, Summary: "List the hosts that gave a sign of life within a day, for operators",
			Answers: fleet.Page{}, Refuses: api.Unserved(http.StatusForbidden)}),
		drain("drain", "drain_host", "Let a host take no new sandbox; those that run finish; for operators", true),
		drain("resume", "resume_host", "Let a host take sandboxes again; for operators", false),
	}
}

type hostRequest struct {
	Name string `path:"name" description:"name of the host"`
}

// operators refuses all callers but operators.
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
	answerWith(w, page, err)
}

func (a *API) drainHost(on bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		h, err := a.Hosts.Drain(r.Context(), chi.URLParam(r, "name"), on)
		answerWith(w, h, err)
	}
}
