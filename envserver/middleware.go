package envserver

import (
	"fmt"
	"net/http"
	"runtime/debug"

	"github.com/gorilla/websocket"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/propagation"

	"github.com/rolloutd/rolloutd/envserver/internal/httpio"
	"github.com/rolloutd/rolloutd/envserver/internal/reply"
	"github.com/rolloutd/rolloutd/internal/network/listen"
	"github.com/rolloutd/rolloutd/internal/telemetry/untraced"
)

// maxHeader bounds a request's line and headers, in bytes. The HTTP server bounds them too, but answers in
// plain text: its bound must be larger.
const maxHeader = 64 << 10

// middleware wraps the router, outermost first: spans, recovery, size of headers, cross-origin protection, tokens.
func (s *Server) middleware(next http.Handler) (http.Handler, error) {
	origins := http.NewCrossOriginProtection()
	for _, o := range s.o.AllowedOrigins {
		if err := origins.AddTrustedOrigin(o); err != nil {
			return nil, fmt.Errorf("allowed origin %q: %w", o, err)
		}
	}

	h := smallHeaders(s.ownHost(ownPages(origins, s.authenticate(next))))

	return otelhttp.NewHandler(untracedReads(s.recover(h)), "envserver",
		otelhttp.WithTracerProvider(s.o.TracerProvider),
		otelhttp.WithPropagators(propagation.TraceContext{}),
		// The route sets the span's full name; see named.
		otelhttp.WithSpanNameFormatter(func(_ string, r *http.Request) string { return r.Method }),
		// Reads have no spans, since clients poll. Connections have none either; their steps do.
		otelhttp.WithFilter(func(r *http.Request) bool {
			return !isRead(r) && !websocket.IsWebSocketUpgrade(r)
		}),
	), nil
}

func isRead(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }

// untracedReads also suppresses spans for a read's requests to Temporal and the store.
func untracedReads(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isRead(r) && !websocket.IsWebSocketUpgrade(r) {
			r = r.WithContext(untraced.Context(r.Context()))
		}

		next.ServeHTTP(w, r)
	})
}

// ownHost refuses requests for another host name, if no token protects this server.
func (s *Server) ownHost(next http.Handler) http.Handler {
	if len(s.o.Tokens) > 0 {
		return next
	}

	refuse := func(w http.ResponseWriter, why string) {
		hangUp(w)
		httpio.WriteDetail(w, http.StatusForbidden, why)
	}

	return listen.RequireHost(s.o.Hosts, refuse, next)
}

// ownPages refuses requests of scripts, frames and images on other origins' pages, with any method: a GET
// may take a session slot too. It allows a link that a person follows. The upgrader checks the handshakes
// of WebSockets.
func ownPages(origins *http.CrossOriginProtection, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		link := r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"

		asked := r
		if isRead(r) && !link && !websocket.IsWebSocketUpgrade(r) {
			changed := *r
			// not a safe method to the library
			changed.Method = http.MethodPost
			asked = &changed
		}

		if err := origins.Check(asked); err != nil {
			httpio.WriteDetail(w, http.StatusForbidden, "Cross-origin request refused")
			return
		}

		next.ServeHTTP(w, r)
	})
}

// recover turns a panic into a 500 whose id is in the log.
func (s *Server) recover(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// an agent's output must not be shown as a page
		w.Header().Set("X-Content-Type-Options", "nosniff")

		defer func() {
			if v := recover(); v != nil &&
				v != http.ErrAbortHandler { //nolint:errorlint // net/http compares the same way
				httpio.WriteJSON(w, http.StatusInternalServerError, reply.Problem{
					Detail: "Internal Server Error", ErrorID: s.env.LogPanic(v, debug.Stack()),
				})
			} else if v != nil {
				panic(v)
			}
		}()

		next.ServeHTTP(w, r)
	})
}

// smallHeaders refuses requests whose headers are too large.
func smallHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		size := len(r.RequestURI)
		for name, values := range r.Header {
			for _, v := range values {
				size += len(name) + len(v)
			}
		}

		if size > maxHeader {
			httpio.WriteDetail(w, http.StatusRequestHeaderFieldsTooLarge, "Request headers too large")
			return
		}

		next.ServeHTTP(w, r)
	})
}
