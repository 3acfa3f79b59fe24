package sandbox

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"

	"github.com/rolloutd/rolloutd/internal/network/listen"
)

// serveHTTP2 serves HTTP/2 on conn until either ends, and returns when every handler has returned.
// http.Server's final error is about its listener, so a broken connection is io.ErrUnexpectedEOF.
func serveHTTP2(ctx context.Context, conn net.Conn, h http.Handler, log *slog.Logger) error {
	l := newOneListener(conn)

	var handlers sync.WaitGroup

	srv := &http.Server{ //nolint:gosec // G112: serves one connection, whose peer is sandboxd
		Protocols: new(http.Protocols),
		// Handlers end with their connection, not with ctx: a handler that returned on a canceled context
		// while the connection is open would send an empty answer, and the agent would take it for the
		// model's.
		BaseContext: func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
		ErrorLog:    slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		HTTP2:       listen.HTTP2(),
		ConnState: func(_ net.Conn, s http.ConnState) {
			if s == http.StateClosed {
				l.ended()
			}
		},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			handlers.Add(1)
			defer handlers.Done()

			h.ServeHTTP(w, r)
		}),
	}
	srv.Protocols.SetUnencryptedHTTP2(true)

	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	_ = srv.Serve(l)

	stop()

	_ = srv.Close()
	// no handler starts after this
	l.wait()
	handlers.Wait()

	return io.ErrUnexpectedEOF
}

// oneListener accepts one connection, and then waits for its end.
type oneListener struct {
	conn net.Conn
	next chan net.Conn

	// used by the serving goroutine only
	accepted bool
	closing  sync.Once

	// Close was called
	closed chan struct{}

	// closed when the accepted connection has ended
	over chan struct{}
}

func newOneListener(conn net.Conn) *oneListener {
	l := &oneListener{conn: conn, next: make(chan net.Conn, 1), closed: make(chan struct{}), over: make(chan struct{})}
	l.next <- conn

	return l
}

// Accept implements net.Listener.
func (l *oneListener) Accept() (net.Conn, error) {
	select {
	case <-l.closed:
		return nil, net.ErrClosed
	case c := <-l.next:
		l.accepted = true
		return c, nil
	}
}

// Close implements net.Listener. It also closes the connection.
func (l *oneListener) Close() error {
	l.closing.Do(func() {
		close(l.closed)
		_ = l.conn.Close()
	})

	return nil
}

// Addr implements net.Listener.
func (l *oneListener) Addr() net.Addr { return l.conn.LocalAddr() }

func (l *oneListener) ended() {
	close(l.over)
	_ = l.Close()
}

func (l *oneListener) wait() {
	if l.accepted {
		<-l.over
	}
}
