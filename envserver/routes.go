package envserver

import (
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"
	"github.com/gorilla/websocket"
	"go.opentelemetry.io/otel/trace"

	"github.com/rolloutd/rolloutd/envserver/internal/jsonrpc"
)

// route is one HTTP route. The table is what the router, the Allow header, the OpenAPI document and /docs are made from.
type route struct {
	method, path string
	handle       http.HandlerFunc
	// says describes the route; one without it is not part of the interface.
	says *operation
}

const get, post = http.MethodGet, http.MethodPost

func (s *Server) routes() []route {
	all := []route{
		{get, "/health", s.health, &operation{id: "endpoint_health_get", tag: "Health", summary: "Whether the server answers", answers: healthResponse{}}},
		{get, "/metadata", s.metadata, &operation{id: "endpoint_metadata_get", tag: "Environment Info", summary: "What this environment is", answers: environmentMetadata{}}},
		{get, "/schema", s.schema, &operation{id: "get_schemas_schema_get", tag: "Schema", summary: "Schemas of action, observation and state", answers: schemaResponse{}}},
		{post, "/mcp", s.mcpPost, &operation{id: "mcp_endpoint_mcp_post", tag: "MCP", summary: "JSON-RPC: list and call tools, open and close sessions",
			reads: jsonrpc.Request{}, needsBody: true, answers: jsonrpc.Response{}, refuses: unread()}},
	}
	for path, page := range map[string]http.HandlerFunc{"/openapi.json": s.openAPI, "/docs": s.docs, "/redoc": s.docs} {
		all = append(all, route{get, path, page, nil}, route{http.MethodHead, path, page, nil})
	}
	all = append(all, s.restRoutes()...)
	if s.o.Mode == Simulation {
		all = append(all, s.simulationRoutes()...)
	}
	if s.o.Web {
		all = append(all, s.webRoutes()...)
	}
	return all
}

func (s *Server) router() chi.Router {
	r := chi.NewRouter()
	sockets := map[string]http.HandlerFunc{"/ws": s.ws, "/mcp": s.mcpSocket}
	if s.o.Web {
		sockets["/ws/ui"] = s.webUpdates
	}
	r.Use(unescaped, upgrades(sockets))
	allowed := map[string]string{}
	for _, rt := range s.routes() {
		allowed[rt.path] = strings.TrimPrefix(allowed[rt.path]+", "+rt.method, ", ")
		r.MethodFunc(rt.method, rt.path, named(rt))
	}
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

// unescaped has a request routed by the path that it means, whatever of it the client has escaped.
func unescaped(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawPath != "" { // which the router would go by
			u := *r.URL
			u.RawPath = ""
			r = r.WithContext(r.Context())
			r.URL = &u
		}
		next.ServeHTTP(w, r)
	})
}

// noHandshake says why a WebSocket's handshake is refused.
func noHandshake(w http.ResponseWriter, _ *http.Request, status int, why error) {
	w.Header().Set("Sec-WebSocket-Version", "13")
	writeDetail(w, status, why.Error())
}

// upgrades answers WebSocket handshakes, which are none of the router's: they are refused where there is no WebSocket, and a path
// may have both.
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

// unknownPath sends a known path with a slash too many to its place, and knows nothing else.
func (s *Server) unknownPath(allowed map[string]string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		path := strings.TrimSuffix(r.URL.Path, "/")
		switch {
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
