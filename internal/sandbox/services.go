package sandbox

import (
	"context"
	"io"
	"net"
	"net/http"
	"strconv"

	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// Freeze stops every process of the sandbox; after it no tool call starts one. It may run again. Processes that cannot
// be stopped are a fault.Timeout.
func (s *Sandbox) Freeze(ctx context.Context) error {
	return s.json(ctx, call{method: http.MethodPost, path: "/v1/freeze"}, nil)
}

// Thaw lets the processes that Freeze has stopped go on.
func (s *Sandbox) Thaw(ctx context.Context) error {
	return s.json(ctx, call{method: http.MethodPost, path: "/v1/thaw"}, nil)
}

// Listeners returns the TCP ports with which processes of the sandbox listen.
func (s *Sandbox) Listeners(ctx context.Context) (found wire.Listeners, err error) {
	err = s.json(ctx, call{method: http.MethodGet, path: "/v1/listeners"}, &found)
	return found, err
}

// Connect connects to a TCP port inside the sandbox. A port without a listener is a fault.Unavailable.
func (s *Sandbox) Connect(ctx context.Context, port int) (net.Conn, error) {
	return s.backend.upgrade(ctx, s.id, "/v1/connect/"+strconv.Itoa(port), wire.ConnectUpgrade)
}

// ServePort is ServeNetwork for connections of the sandbox's processes to a TCP port on 127.0.0.1, on which sandboxd
// listens from then on. A port on which another process listens is a fault.Conflict.
func (s *Sandbox) ServePort(
	ctx context.Context,
	port int,
	open func(),
	serve func(context.Context, io.ReadWriteCloser),
) error {
	return s.backend.serveConnections(ctx, s.id, "/v1/listen/"+strconv.Itoa(port), open, serve)
}
