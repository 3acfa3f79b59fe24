package proxy

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway"
	"github.com/rolloutd/rolloutd/internal/trajectory"
)

// Handler serves the admin API, to the roles of the deployment. Every request needs their token.
//
//	GET    /routes                              → {"ids": […]}
//	PUT    /routes/{id}        Route            → 204
//	GET    /routes/{id}?since=V&wait=30s        → RouteStatus; with since, once its version is not V, or after the wait
//	POST   /routes/{id}/end    {"reason": …}    → 204, when cancelled calls are recorded
//	POST   /routes/{id}/sessions {"sessions": […]} → 204; these are the agent's own
//	POST   /routes/{id}/probe                   → 204, when the endpoint answers; a fault.UpstreamFailed or UpstreamRefused else
//	GET    /routes/{id}/trace                   → JSON lines of rollout.Turn
//	DELETE /routes/{id}                         → 204
//	GET    /ready/{name}                        → 204; a fault.Exhausted while new rollouts should wait for that upstream
//
// It also serves the model APIs below /routes/{id}/v1, which need the token of the route; see hostAPI.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+gateway.RoutesPath, answering(s.getRoutes))
	mux.HandleFunc("PUT "+gateway.RoutePath, answering(s.putRoute))
	mux.HandleFunc("GET "+gateway.RoutePath, answering(s.getRoute))
	mux.HandleFunc("POST "+gateway.EndPath, answering(s.endRoute))
	mux.HandleFunc("GET "+gateway.TracePath, answering(s.getTrace))
	mux.HandleFunc("POST "+gateway.SessionsPath, answering(s.addSessions))
	mux.HandleFunc("POST "+gateway.ProbePath, answering(s.probe))
	mux.HandleFunc("DELETE "+gateway.RoutePath, answering(s.deleteRoute))
	mux.HandleFunc("GET "+gateway.ReadyPath, answering(s.getReady))
	all := s.hostAPI()
	all.Handle("/", authorized(mux, s.options.Key.Token(gateway.AdminPurpose)))
	return all
}

// getReady has new rollouts wait rather than running ones: an agent that has begun holds a sandbox, and its time runs. A gateway that
// can record nothing would fail each of them.
func (s *Server) getReady(w http.ResponseWriter, req *http.Request) error {
	name := req.PathValue("name")
	if err := s.traces.Broken(); err != nil {
		return fault.Wrap(fault.Exhausted, err, "the gateway can record no calls until it is started again")
	}
	if why := s.upstreams.StatusOf(name).Busy; why != "" {
		return fault.New(fault.Exhausted, "model endpoint %q has no room for another rollout: %s", name, why)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (s *Server) getRoutes(w http.ResponseWriter, _ *http.Request) error {
	s.mu.Lock()
	list := gateway.RouteList{IDs: slices.Sorted(maps.Keys(s.routes))}
	s.mu.Unlock()
	body, err := json.Marshal(list)
	if err != nil {
		return fault.Wrap(fault.Internal, err, "list routes")
	}
	writeJSON(w, http.StatusOK, body)
	return nil
}

func (s *Server) putRoute(w http.ResponseWriter, req *http.Request) error {
	var def gateway.Route
	if err := readRequest(w, req, &def); err != nil {
		return err
	}
	if def.ID != req.PathValue("id") {
		return fault.Field("id", "%q is not the path's %q", def.ID, req.PathValue("id"))
	}
	if err := s.open(def); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (s *Server) getRoute(w http.ResponseWriter, req *http.Request) error {
	r, err := s.route(req.PathValue("id"))
	if err != nil {
		return err
	}
	since, wait, err := statusWait(req)
	if err != nil {
		return err
	}
	body, err := json.Marshal(r.changed(req.Context(), since, wait))
	if err != nil {
		return fault.Wrap(fault.Internal, err, "status")
	}
	writeJSON(w, http.StatusOK, body)
	return nil
}

func (s *Server) endRoute(w http.ResponseWriter, req *http.Request) error {
	var in gateway.EndRequest
	if err := readRequest(w, req, &in); err != nil {
		return err
	}
	r, err := s.route(req.PathValue("id"))
	if err != nil {
		return err
	}
	if err := r.end(req.Context(), in.Reason); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (s *Server) deleteRoute(w http.ResponseWriter, req *http.Request) error {
	if err := s.close(req.Context(), req.PathValue("id")); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// getTrace streams. A failure on the way breaks the response off, so that no reader takes half a trace for a whole one.
func (s *Server) getTrace(w http.ResponseWriter, req *http.Request) error {
	r, err := s.route(req.PathValue("id"))
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/jsonl")
	out := &countingWriter{w: w}
	if r.trace == nil {
		return nil
	}
	if err := trajectory.Export(r.trace, out); err != nil {
		if out.n == 0 {
			return err
		}
		s.log.Error("trace broken off", "route", r.ID, "error", err)
		panic(http.ErrAbortHandler)
	}
	return nil
}

type countingWriter struct {
	w io.Writer
	n int
}

func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += n
	return n, err
}
