package tier

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/rolloutd/rolloutd/internal/network/listen"
)

// ErrStopping is the cancellation cause of requests when the process stops, in contrast to a client that disconnects.
var ErrStopping = errors.New("the server is stopping")

// ServeHTTP serves h on l until stopped. Requests in flight have half of the stop's budget and are then
// canceled, and connections on which no request has come are closed. WebSockets are canceled by their context,
// since the standard library does not track them. If l bounds its connections, requests over the bound get 503.
func ServeHTTP(l net.Listener, h http.Handler) Part {
	return ServeWith(l, h, func(*http.Server) {})
}

// ServeWith is ServeHTTP by a server that configure has changed.
func ServeWith(l net.Listener, h http.Handler, configure func(*http.Server)) Part {
	// canceled by stop
	ctx, cancel := context.WithCancelCause(context.Background())
	unused := unusedConns{open: map[net.Conn]struct{}{}}
	srv := &http.Server{
		Handler:     readRest(refuseOver(h)),
		ConnContext: listen.ConnContext,
		ConnState: func(c net.Conn, s http.ConnState) {
			listen.ConnState(c, s)
			unused.note(c, s)
		},
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    256 << 10, // the edge has a lower limit and its own error
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}
	configure(srv)

	done := make(chan error, 1)
	// ends by Shutdown or Close
	go func() { done <- srv.Serve(l) }()

	return Part{Done: done, Stop: func(stop context.Context) error {
		defer cancel(ErrStopping)

		drain, cancelDrain := context.WithTimeout(stop, remaining(stop)/2)
		defer cancelDrain()

		if err := srv.Shutdown(drain); err == nil {
			return nil
		}

		cancel(ErrStopping)
		unused.close()

		if err := srv.Shutdown(stop); err != nil {
			return errors.Join(err, srv.Close())
		}

		return nil
	}}
}

// unusedConns are the open connections on which no request has come. http.Server.Shutdown waits five seconds for
// each of them. A client has one where it dials and another connection becomes free first.
type unusedConns struct {
	mu   sync.Mutex
	open map[net.Conn]struct{}
}

func (u *unusedConns) note(c net.Conn, s http.ConnState) {
	u.mu.Lock()
	defer u.mu.Unlock()

	if s == http.StateNew {
		u.open[c] = struct{}{}
	} else {
		delete(u.open, c)
	}
}

func (u *unusedConns) close() {
	u.mu.Lock()
	defer u.mu.Unlock()

	for c := range u.open {
		// the client may have closed it
		_ = c.Close()
	}
}

// OwnHost refuses requests whose Host header is not a name of the server. Servers without tokens need it.
func OwnHost(names []string, next http.Handler) http.Handler {
	return listen.RequireHost(
		names,
		func(w http.ResponseWriter, why string) { http.Error(w, why, http.StatusForbidden) },
		next,
	)
}

func refuseOver(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		listen.Serving(r.Context())
		// an agent's output is never a page
		w.Header().Set("X-Content-Type-Options", "nosniff")

		if !listen.Over(r.Context()) {
			next.ServeHTTP(w, r)
			return
		}

		w.Header().Set("Connection", "close")
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusServiceUnavailable)
		// the client may be gone
		_, _ = io.WriteString(w, `{"detail":"Too many connections"}`)
	})
}

// mostRest is what of a request's body is read after the reply: as much as the standard library reads where the
// connection stays open.
const mostRest = 256 << 10

// readRest reads the body of a request that next has refused unread, if the client wants the connection closed after it.
// The standard library does not: the close then resets the connection, and the client may never see the reply. A body
// over the bound makes the server wait half a second before it closes.
func readRest(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r)

		if r.Close {
			// the client may be gone
			_, _ = io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, mostRest))
		}
	})
}

// remaining is the time until the deadline of ctx.
func remaining(ctx context.Context) time.Duration {
	if end, ok := ctx.Deadline(); ok {
		return time.Until(end)
	}

	return stopBudget
}
