package gateway

import (
	"net/http"

	"github.com/rolloutd/rolloutd/internal/gateway/dialect"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
)

// HostAPI returns the handlers of the model APIs of routes by pattern, for agents that run outside their
// sandbox. The caller checks that a request holds the token of the route that its path names. The calls are
// recorded and counted as those of the model channel are; a call repeated under its id is answered from its
// record.
//
//	POST /routes/{id}/v1/chat/completions, …/completions, …/responses, …/messages
//	GET  /routes/{id}/v1/models
//	POST /routes/{id}/tokenize    gatewayapi.TokenizeRequest → gatewayapi.Tokens
func (s *Server) HostAPI() map[string]func(http.ResponseWriter, *http.Request) error {
	all := map[string]func(http.ResponseWriter, *http.Request) error{
		"GET " + gatewayapi.ModelPath + "/models": s.ofRoute(func(_ *route, w http.ResponseWriter, _ *http.Request) {
			writeJSON(w, http.StatusOK, []byte(modelList))
		}),
	}

	all["POST "+gatewayapi.TokenizePath] = s.tokenize
	for _, d := range dialect.All() {
		all["POST "+gatewayapi.ModelPath+"/"+string(d.API)] = s.ofRoute(
			func(r *route, w http.ResponseWriter, req *http.Request) {
				r.serveCall(w, req, d, true)
			},
		)
	}

	return all
}

// ofRoute adds the route that a request's path names.
func (s *Server) ofRoute(
	do func(*route, http.ResponseWriter, *http.Request),
) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, req *http.Request) error {
		r, err := s.route(req.PathValue("id"))
		if err != nil {
			return err
		}

		do(r, w, req)

		return nil
	}
}

// closedBy returns why the route makes no further calls.
func (r *route) closedBy() string {
	r.mu.Lock()
	defer r.mu.Unlock()

	if r.journal.Ended != "" {
		return r.journal.Ended
	}

	return "the budget of " + r.journal.BudgetSpent + " is spent"
}
