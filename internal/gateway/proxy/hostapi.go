package proxy

import (
	"net/http"

	"github.com/rolloutd/rolloutd/internal/gateway"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect"
)

// hostAPI serves the model APIs of a route to an agent that runs outside its sandbox. Such a caller names the route in the path and holds
// its token. Its calls are recorded and counted as those of the model channel are; a call repeated under its id is answered from its record.
//
//	POST /routes/{id}/v1/chat/completions, …/completions, …/responses, …/messages
//	GET  /routes/{id}/v1/models
func (s *Server) hostAPI() *http.ServeMux {
	mux := http.NewServeMux()
	for _, d := range dialect.All() {
		s.handleHost(mux, "POST "+gateway.ModelPath+"/"+string(d.API), func(r *route, w http.ResponseWriter, req *http.Request) error {
			r.serveCall(w, req, d, true)
			return nil
		})
	}
	s.handleHost(mux, "GET "+gateway.ModelPath+"/models", func(_ *route, w http.ResponseWriter, _ *http.Request) error {
		writeJSON(w, http.StatusOK, []byte(modelList))
		return nil
	})
	return mux
}

// handleHost registers a handler of a route that needs the route's token.
func (s *Server) handleHost(mux *http.ServeMux, pattern string, do func(*route, http.ResponseWriter, *http.Request) error) {
	mux.HandleFunc(pattern, func(w http.ResponseWriter, req *http.Request) {
		id := req.PathValue("id")
		next := answering(func(w http.ResponseWriter, req *http.Request) error {
			r, err := s.route(id)
			if err != nil {
				return err
			}
			return do(r, w, req)
		})
		authorized(next, gateway.RouteToken(s.options.Key, id)).ServeHTTP(w, req)
	})
}

// closedBy is why the route makes no further calls.
func (r *route) closedBy() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.journal.Ended != "" {
		return r.journal.Ended
	}
	return "the budget of " + r.journal.BudgetSpent + " is spent"
}
