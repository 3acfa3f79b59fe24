package envserver

import (
	"fmt"
	"net/http"
	"runtime/debug"

	"github.com/google/uuid"
	"github.com/gorilla/websocket"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/propagation"
)

// middleware wraps the router, outermost last: spans, recovery, cross-origin protection, tokens.
func (s *Server) middleware(next http.Handler) (http.Handler, error) {
	origins := http.NewCrossOriginProtection()
	for _, o := range s.o.AllowedOrigins {
		if err := origins.AddTrustedOrigin(o); err != nil {
			return nil, fmt.Errorf("allowed origin %q: %w", o, err)
		}
	}
	origins.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		writeDetail(w, http.StatusForbidden, "Cross-origin request refused")
	}))
	h := origins.Handler(s.authenticate(next))
	return otelhttp.NewHandler(s.recover(h), "envserver",
		otelhttp.WithTracerProvider(s.o.TracerProvider),
		otelhttp.WithPropagators(propagation.TraceContext{}),
		// The route gives the span its whole name; see named.
		otelhttp.WithSpanNameFormatter(func(_ string, r *http.Request) string { return r.Method }),
		// A span as long as a connection says nothing; the steps in it have their own.
		otelhttp.WithFilter(func(r *http.Request) bool { return !websocket.IsWebSocketUpgrade(r) }),
	), nil
}

// recover turns a panic into a 500 whose id is in the log.
func (s *Server) recover(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if v := recover(); v != nil && v != http.ErrAbortHandler {
				writeJSON(w, http.StatusInternalServerError, problem{
					Detail: "Internal Server Error", ErrorID: s.logPanic(v, debug.Stack()),
				})
			} else if v != nil {
				panic(v)
			}
		}()
		next.ServeHTTP(w, r)
	})
}

// logPanic writes a panic to the log and returns the id under which it is found there.
func (s *Server) logPanic(v any, stack []byte) string {
	id := uuid.NewString()
	s.o.Logger.Error("panic", "error_id", id, "panic", fmt.Sprint(v), "stack", string(stack))
	return id
}
