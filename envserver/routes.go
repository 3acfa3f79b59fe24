package envserver

import (
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"
	"github.com/gorilla/websocket"
	"go.opentelemetry.io/otel/trace"
)

// route is one HTTP route. The table is what the router, the Allow header, the OpenAPI page and /docs are made from.
type route struct {
	method, path string
	handle       http.HandlerFunc
	// openAPI is the operation's id, tag and summary; a route without an id is not part of the interface.
	id, tag, summary string
}

func (s *Server) routes() []route {
	all := []route{
		{http.MethodGet, "/health", s.health, "endpoint_health_get", "Health", "Whether the server answers"},
		{http.MethodGet, "/metadata", s.metadata, "endpoint_metadata_get", "Environment Info", "What this environment is"},
		{http.MethodGet, "/schema", s.schema, "get_schemas_schema_get", "Schema", "Schemas of action, observation and state"},
		{http.MethodPost, "/mcp", s.mcpPost, "mcp_endpoint_mcp_post", "MCP", "JSON-RPC: list and call tools, open and close sessions"},
		{http.MethodGet, "/openapi.json", s.openAPI, "", "", ""},
		{http.MethodGet, "/docs", s.docs, "", "", ""},
		{http.MethodGet, "/redoc", s.docs, "", "", ""},
	}
	all = append(all, s.restRoutes()...)
	if s.o.Mode == Simulation {
		all = append(all,
			route{http.MethodPost, "/reset", s.resetPost, "reset_reset_post", "Environment Control", "Begin an episode in an environment of its own"},
			route{http.MethodPost, "/step", s.stepPost, "step_step_post", "Environment Control", "Carry out one action in an environment of its own"},
			route{http.MethodGet, "/state", s.stateGet, "endpoint_state_get", "State Management", "State of a fresh environment"},
		)
	}
	return all
}

func (s *Server) router() http.Handler {
	r := chi.NewRouter()
	allowed := map[string]string{}
	for _, rt := range s.routes() {
		allowed[rt.path] = strings.TrimPrefix(allowed[rt.path]+", "+rt.method, ", ")
		r.MethodFunc(rt.method, rt.path, named(rt))
	}
	r.HandleFunc("/ws", upgradeOr(s.ws, notFound))
	r.Get("/mcp", upgradeOr(s.mcpSocket, methodNotAllowed(allowed)))
	r.MethodNotAllowed(methodNotAllowed(allowed))
	r.NotFound(s.unknownPath(allowed))
	return r
}

// named gives a request's span the name of its route; paths themselves are without number.
func named(rt route) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		trace.SpanFromContext(r.Context()).SetName(rt.method + " " + rt.path)
		rt.handle(w, r)
	}
}

// upgradeOr sends WebSocket handshakes one way and all else the other.
func upgradeOr(socket, plain http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if websocket.IsWebSocketUpgrade(r) {
			socket(w, r)
			return
		}
		plain(w, r)
	}
}

func notFound(w http.ResponseWriter, _ *http.Request) {
	writeDetail(w, http.StatusNotFound, "Not Found")
}

func methodNotAllowed(allowed map[string]string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.Path
		if pattern := chi.RouteContext(r.Context()).RoutePattern(); allowed[path] == "" {
			path = pattern
		}
		w.Header().Set("Allow", allowed[path])
		writeDetail(w, http.StatusMethodNotAllowed, "Method Not Allowed")
	}
}

// unknownPath refuses handshakes, sends a known path with a slash too many to its place, and knows nothing else.
func (s *Server) unknownPath(allowed map[string]string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		path := strings.TrimSuffix(r.URL.Path, "/")
		switch {
		case websocket.IsWebSocketUpgrade(r):
			w.WriteHeader(http.StatusForbidden)
		case path != r.URL.Path && allowed[path] != "":
			to := *r.URL
			to.Scheme, to.Host, to.Path = scheme(r), r.Host, path
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
