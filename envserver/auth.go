package envserver

import (
	"context"
	"net/http"
	"slices"
	"strings"
)

// open says whether a path needs no token: whoever probes a container has none.
func open(path string) bool { return path == "/health" }

// authenticate admits requests with a known token.
func (s *Server) authenticate(next http.Handler) http.Handler {
	if len(s.o.Tokens) == 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller, known := FindToken(s.o.Tokens, token(r))
		if !known && !open(r.URL.Path) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="rolloutd"`)
			writeDetail(w, http.StatusUnauthorized, "Not authenticated")
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, caller)))
	})
}

// token is the bearer token, or the password of basic auth: older Python clients can send no header of their own, but
// carry user and password of their URL.
func token(r *http.Request) string {
	if _, password, ok := r.BasicAuth(); ok {
		return password
	}
	scheme, t, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(t)
}

// sameOrigin admits handshakes that come from no web page, from our own, or from an allowed one.
func (s *Server) sameOrigin(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" || slices.Contains(s.o.AllowedOrigins, origin) {
		return true
	}
	_, host, _ := strings.Cut(origin, "://")
	return strings.EqualFold(host, r.Host)
}
