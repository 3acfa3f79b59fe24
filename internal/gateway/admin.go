package gateway

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// maxAdmin bounds a request of the admin API, in bytes.
const maxAdmin = 1 << 20

// Handler serves the admin API. Every request needs the deployment's token.
//
//	GET    /routes                              → {"ids": […]}
//	PUT    /routes/{id}        Route            → 204
//	GET    /routes/{id}                         → RouteStatus
//	POST   /routes/{id}/end    {"reason": …}    → 204, when cancelled calls are recorded
//	GET    /routes/{id}/trace                   → JSON lines of rollout.Turn
//	DELETE /routes/{id}                         → 204
//	GET    /ready/{name}                        → 204; a fault.Exhausted while new rollouts should wait for that upstream
//	GET    /upstreams/{name}                    → UpstreamStatus
//	POST   /upstreams/{name}/pause   {"for_s": …}               → UpstreamStatus; no call begins
//	POST   /upstreams/{name}/drain   {"for_s": …, "wait_s": …}  → UpstreamStatus, when none is under way
//	POST   /upstreams/{name}/resume                             → UpstreamStatus
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+routesPath, s.admin(s.getRoutes))
	mux.HandleFunc("PUT "+routePath, s.admin(s.putRoute))
	mux.HandleFunc("GET "+routePath, s.admin(s.getRoute))
	mux.HandleFunc("POST "+endPath, s.admin(s.endRoute))
	mux.HandleFunc("GET "+tracePath, s.admin(s.getTrace))
	mux.HandleFunc("DELETE "+routePath, s.admin(s.deleteRoute))
	mux.HandleFunc("GET "+readyPath, s.admin(s.getReady))
	mux.HandleFunc("GET "+upstreamPath, s.admin(s.getUpstream))
	mux.HandleFunc("POST "+upstreamPath+"/pause", s.admin(s.pauseUpstream))
	mux.HandleFunc("POST "+upstreamPath+"/drain", s.admin(s.drainUpstream))
	mux.HandleFunc("POST "+upstreamPath+"/resume", s.admin(s.resumeUpstream))
	return s.authorized(mux)
}

// authorized compares hashes: equal lengths, so that the time taken tells nothing.
func (s *Server) authorized(next http.Handler) http.Handler {
	want := sha256.Sum256([]byte(s.token))
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		token, _ := strings.CutPrefix(req.Header.Get("Authorization"), "Bearer ")
		got := sha256.Sum256([]byte(token))
		if subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
			fail(w, fault.New(fault.Unauthorized, "wrong or missing token"))
			return
		}
		next.ServeHTTP(w, req)
	})
}

func (s *Server) admin(do func(http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		if err := do(w, req); err != nil {
			fail(w, err)
		}
	}
}

func fail(w http.ResponseWriter, err error) {
	kind := fault.KindOf(err)
	body, _ := json.Marshal(failureBody{Kind: kind, Message: err.Error()}) // strings always encode
	writeJSON(w, fault.EdgeOf(kind).HTTPStatus, body)
}

func readAdmin(w http.ResponseWriter, req *http.Request, into any) error {
	err := json.NewDecoder(http.MaxBytesReader(w, req.Body, maxAdmin)).Decode(into)
	return fault.Wrap(fault.Invalid, err, "request body")
}

func (s *Server) getRoutes(w http.ResponseWriter, _ *http.Request) error {
	s.mu.Lock()
	list := routeList{IDs: slices.Sorted(maps.Keys(s.routes))}
	s.mu.Unlock()
	body, err := json.Marshal(list)
	if err != nil {
		return fault.Wrap(fault.Internal, err, "list routes")
	}
	writeJSON(w, http.StatusOK, body)
	return nil
}

func (s *Server) putRoute(w http.ResponseWriter, req *http.Request) error {
	var def Route
	if err := readAdmin(w, req, &def); err != nil {
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
	body, err := json.Marshal(r.status())
	if err != nil {
		return fault.Wrap(fault.Internal, err, "status")
	}
	writeJSON(w, http.StatusOK, body)
	return nil
}

func (s *Server) endRoute(w http.ResponseWriter, req *http.Request) error {
	var in endRequest
	if err := readAdmin(w, req, &in); err != nil {
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
	if err := r.trace.Export(out); err != nil {
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

func (s *Server) deleteRoute(w http.ResponseWriter, req *http.Request) error {
	if err := s.close(req.Context(), req.PathValue("id")); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
