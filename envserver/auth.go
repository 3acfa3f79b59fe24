package envserver

import (
	"cmp"
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gorilla/websocket"

	"github.com/rolloutd/rolloutd/envserver/internal/access"
	"github.com/rolloutd/rolloutd/envserver/internal/executor"
	"github.com/rolloutd/rolloutd/envserver/internal/httpio"
	"github.com/rolloutd/rolloutd/envserver/internal/web"
	"github.com/rolloutd/rolloutd/internal/input/bearer"
	"github.com/rolloutd/rolloutd/internal/network/listen"
)

// public reports whether a path needs no token: a container's probe has none, and the page asks for one.
func (s *Server) public(path string) bool {
	part, underWeb := strings.CutPrefix(path, webHome)
	return path == "/health" || s.o.Web && (path == "/" || path == "/web" || underWeb && web.Part(part))
}

// authenticate requires a known token.
func (s *Server) authenticate(next http.Handler) http.Handler {
	// every caller of an open server is its operator
	if len(s.o.Tokens) == 0 {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(w, r.WithContext(access.WithCaller(r.Context(), access.Token{Scope: access.ScopeOperator})))
		})
	}

	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller, known := access.FindToken(s.o.Tokens, token(r))
		if known {
			listen.Trust(r.Context())
		} else if !s.public(r.URL.Path) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="rolloutd"`)
			hangUp(w)
			httpio.WriteDetail(w, http.StatusUnauthorized, cmp.Or(executor.Unauthenticated(r), "Not authenticated"))

			return
		}

		next.ServeHTTP(w, r.WithContext(access.WithCaller(r.Context(), caller)))
	})
}

// hangUp closes the connection after the answer and bounds the wait for the rest of the request's body, so
// that a refused client cannot hold a connection by sending slowly.
func hangUp(w http.ResponseWriter) {
	w.Header().Set("Connection", "close")
	// a test's recorder has none
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(time.Second))
}

// tokenProtocol is the prefix of the subprotocol that carries a page's token, base64url without padding:
// scripts in a browser cannot set headers on a WebSocket's handshake.
const tokenProtocol = "rolloutd.token."

// token returns the bearer token, or the password of basic auth: older Python clients cannot set headers,
// but send the user and password of their URL.
func token(r *http.Request) string {
	for _, p := range websocket.Subprotocols(r) {
		if text, ok := strings.CutPrefix(p, tokenProtocol); ok {
			// an undecodable value is not a token
			raw, _ := base64.RawURLEncoding.DecodeString(text)
			return string(raw)
		}
	}

	if _, password, ok := r.BasicAuth(); ok {
		return password
	}

	return bearer.Token(r)
}

// sameOrigin accepts handshakes from outside of web pages, from our own page, and from allowed ones.
func (s *Server) sameOrigin(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" || slices.Contains(s.o.AllowedOrigins, origin) {
		return true
	}

	_, host, _ := strings.Cut(origin, "://")

	return strings.EqualFold(host, r.Host)
}
