package sandbox

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// ServeNetwork serves connections of the sandbox's processes to wire.NetworkAddr with serve, until ctx ends
// (nil) or the channel breaks (an error; a newer ServeNetwork of the same sandbox breaks an older one). It
// calls open when the channel is open. It returns when every serve has returned: their contexts end with
// the channel. A process that listens there itself is a fault.Conflict.
func (b *Backend) ServeNetwork(
	ctx context.Context,
	id string,
	open func(),
	serve func(context.Context, io.ReadWriteCloser),
) error {
	if err := checkID(id); err != nil {
		return err
	}

	return b.serveConnections(ctx, id, "/v1/network", open, serve)
}

// serveConnections serves the connections of a channel of that path, as ServeNetwork does.
func (b *Backend) serveConnections(
	ctx context.Context,
	id, path string,
	open func(),
	serve func(context.Context, io.ReadWriteCloser),
) error {
	conn, err := b.upgrade(ctx, id, path, wire.NetworkUpgrade)
	if err == nil {
		open()

		err = fault.Wrap(fault.Unavailable, serveHTTP2(ctx, conn, connections(serve), b.log), "serve")
	}

	if ctx.Err() != nil {
		return nil
	}

	return fmt.Errorf("channel %s of sandbox %q: %w", path, id, err)
}

// connections turns each request into a connection.
func connections(serve func(context.Context, io.ReadWriteCloser)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		w.WriteHeader(http.StatusOK)

		if control.Flush() != nil {
			return
		}

		serve(r.Context(), &connection{body: r.Body, w: w, control: control})
	})
}

// connection is a connection made of a request and its answer. The answer ends when the handler returns.
type connection struct {
	body    io.ReadCloser
	w       io.Writer
	control *http.ResponseController
}

// Read implements io.Reader.
func (s *connection) Read(p []byte) (int, error) { return s.body.Read(p) }

// Write implements io.Writer.
func (s *connection) Write(p []byte) (int, error) {
	n, err := s.w.Write(p)
	if err == nil {
		err = s.control.Flush()
	}

	return n, err
}

// Close implements io.Closer. It ends a waiting Read.
func (s *connection) Close() error { return s.body.Close() }
