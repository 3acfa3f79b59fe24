package envserver

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"
	"github.com/gorilla/websocket"
	"go.opentelemetry.io/otel/trace"

	"github.com/rolloutd/rolloutd/envserver/internal/api"
	"github.com/rolloutd/rolloutd/envserver/internal/httpio"
	"github.com/rolloutd/rolloutd/envserver/internal/jsonrpc"
	"github.com/rolloutd/rolloutd/envserver/internal/produce"
	"github.com/rolloutd/rolloutd/envserver/internal/reply"
	"github.com/rolloutd/rolloutd/envserver/internal/rest"
)

func (s *Server) routes() []api.Route {
	all := []api.Route{
		api.Get("/health", s.health, &api.Operation{
			ID:      "endpoint_health_get",
			Tag:     "Health",
			Summary: "Report that the server is up",
			Answers: reply.HealthResponse{},
		}),
		api.Get("/metadata", s.metadata, &api.Operation{
			ID:      "endpoint_metadata_get",
			Tag:     "Environment Info",
			Summary: "Describe this environment",
			Answers: reply.EnvironmentMetadata{},
		}),
		api.Get("/schema", s.schema, &api.Operation{
			ID:      "get_schemas_schema_get",
			Tag:     "Schema",
			Summary: "Get the JSON schemas of action, observation and state",
			Answers: reply.SchemaResponse{},
		}),
		api.Post("/mcp", s.mcpPost, &api.Operation{
			ID:        "mcp_endpoint_mcp_post",
			Tag:       "MCP",
			Summary:   "List and call tools, open and close sessions (JSON-RPC)",
			Reads:     jsonrpc.Request{},
			NeedsBody: true,
			Answers:   jsonrpc.Response{},
			Refuses:   api.BodyErrors(),
		}),
		api.Delete("/mcp", s.mcpDelete, &api.Operation{
			ID:      "mcp_session_mcp_delete",
			Tag:     "MCP",
			Summary: "End an MCP session and its episode",
			Reads:   endRequest{},
			Status:  http.StatusNoContent,
			Refuses: api.EngineErrors(http.StatusBadRequest, http.StatusNotFound, http.StatusConflict),
		}),
	}
	for path, page := range map[string]http.HandlerFunc{"/openapi.json": s.openAPI, "/docs": s.docs, "/redoc": s.docs} {
		all = append(all, api.Get(path, page, nil), api.Head(path, page, nil))
	}

	if s.harbor != nil {
		all = append(all, s.harbor.Routes(s.bodies)...)
	}

	if s.base == "" {
		all = append(all, (&rest.API{
			Rollouts:   s.o.Rollouts,
			Groups:     s.o.Groups,
			Regrades:   s.o.Regrades,
			Deliveries: s.o.Deliveries,
			Producers:  s.o.Producers,
			Produce:    s.produce(),
			Episodes:   s.o.Episodes,
			Uploads:    s.o.Uploads,
			Hosts:      s.o.Fleet,
			Endpoints:  s.o.Endpoints,
			Env:        s.env,
			Bodies:     s.bodies,
			Exports:    s.exports,
			Context:    s.callContext,
		}).Routes()...)
		all = append(all, s.savedPageRoutes()...)

		if s.o.Episodes != nil {
			all = append(all, s.executor().Routes()...)
		}
	}

	if s.o.Mode == Simulation {
		all = append(all, s.simulationRoutes()...)
	}

	if s.o.Web {
		all = append(all, s.webRoutes()...)
	}

	return all
}

func (s *Server) produce() *produce.Starter {
	return &produce.Starter{Tools: s.env.Tools, Engine: s.o.Producers, TaskSets: s.o.TaskSets, NewID: newID}
}

func (s *Server) router() chi.Router {
	r := chi.NewRouter()

	sockets := map[string]http.HandlerFunc{"/ws": s.ws, "/mcp": s.mcpSocket}
	if s.o.Web {
		sockets["/ws/ui"] = s.webUpdates
	}

	r.Use(unescaped, upgrades(sockets))

	allowed := map[string]string{}

	all := s.routes()
	for _, rt := range all {
		allowed[rt.Path] = strings.TrimPrefix(allowed[rt.Path]+", "+rt.Method, ", ")
		r.MethodFunc(rt.Method, rt.Path, nameSpan(rt))
	}

	for _, rt := range all {
		if rt.Method == http.MethodGet && !strings.Contains(allowed[rt.Path], http.MethodHead) {
			r.MethodFunc(http.MethodHead, rt.Path, nameSpan(headOf(rt)))
		}
	}

	r.MethodNotAllowed(methodNotAllowed(allowed))
	r.NotFound(s.unknownPath(allowed))

	return r
}

// headOf answers HEAD as GET: the HTTP server omits the body. A stream of events would never end.
func headOf(rt api.Route) api.Route {
	get := rt.Handle

	rt.Method = http.MethodHead
	if rt.Operation != nil && rt.Operation.Answers == api.Media("text/event-stream") {
		rt.Handle = func(w http.ResponseWriter, r *http.Request) {
			gone, cancel := context.WithCancel(r.Context())
			get(&headOnly{ResponseWriter: w, sent: cancel}, r.WithContext(gone))
		}
	}

	return rt
}

// headOnly ends a request at the first byte of its answer.
type headOnly struct {
	http.ResponseWriter
	sent func()
}

// Write implements io.Writer.
func (h *headOnly) Write(p []byte) (int, error) {
	defer h.sent()

	_, err := h.ResponseWriter.Write(p)

	return len(p), errors.Join(err, errHeadOnly)
}

var errHeadOnly = errors.New("only the headers are asked for")

// Unwrap is for http.ResponseController.
func (h *headOnly) Unwrap() http.ResponseWriter { return h.ResponseWriter }

// nameSpan names a request's span after its route, since there are arbitrarily many paths.
func nameSpan(rt api.Route) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		trace.SpanFromContext(r.Context()).SetName(rt.Method + " " + rt.Path)
		rt.Handle(w, r)
	}
}

// unescaped makes the router use the decoded path of a request.
func unescaped(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// the router would use it
		if r.URL.RawPath != "" {
			u := *r.URL
			u.RawPath = ""
			r = r.WithContext(r.Context())
			r.URL = &u
		}

		next.ServeHTTP(w, r)
	})
}

// refuseHandshake answers a refused WebSocket handshake with the reason.
func refuseHandshake(w http.ResponseWriter, _ *http.Request, status int, why error) {
	w.Header().Set("Sec-WebSocket-Version", "13")
	httpio.WriteDetail(w, status, why.Error())
}

// upgrades answers WebSocket handshakes before the router: it refuses those on paths without a WebSocket,
// and a path may have both kinds of handlers.
func upgrades(sockets map[string]http.HandlerFunc) func(http.Handler) http.Handler {
	return func(plain http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			socket := sockets[r.URL.Path]
			switch {
			case !websocket.IsWebSocketUpgrade(r):
				plain.ServeHTTP(w, r)
			case socket == nil:
				w.WriteHeader(http.StatusForbidden)
			default:
				socket(w, r)
			}
		})
	}
}

func notFound(w http.ResponseWriter, _ *http.Request) {
	httpio.WriteDetail(w, http.StatusNotFound, "Not Found")
}

func methodNotAllowed(allowed map[string]string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.Path
		if pattern := chi.RouteContext(r.Context()).RoutePattern(); allowed[path] == "" {
			path = pattern
		}

		w.Header().Set("Allow", allowed[path])
		httpio.WriteDetail(w, http.StatusMethodNotAllowed, "Method Not Allowed")
	}
}

// unknownPath redirects a known path with an extra slash, and answers 404 otherwise.
func (s *Server) unknownPath(allowed map[string]string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		path := strings.TrimSuffix(r.URL.Path, "/")
		switch {
		case path != r.URL.Path && allowed[path] != "":
			to := *r.URL
			to.Scheme, to.Host, to.Path = scheme(r), r.Host, s.base+path
			w.Header().Set("Location", to.String())
			w.WriteHeader(http.StatusTemporaryRedirect)
		default:
			notFound(w, r)
		}
	}
}

func scheme(r *http.Request) string {
	if r.TLS != nil {
		return "https"
	}

	return "http"
}
