package sandboxd

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/sandboxd/reply"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// maxServices bounds the ports that a sandbox listens on for the host side.
const maxServices = 64

// connectTime bounds the connection to a port inside.
const connectTime = 10 * time.Second

// services listens on ports of the sandbox whose servers are elsewhere.
type services struct {
	log *slog.Logger

	mu     sync.Mutex
	byPort map[uint16]*forwarder
}

func newServices(log *slog.Logger) *services {
	return &services{log: log, byPort: map[uint16]*forwarder{}}
}

// on returns the forwarder of the port.
func (s *services) on(port uint16) (*forwarder, error) {
	s.mu.Lock()
	defer s.mu.Unlock()

	f := s.byPort[port]
	switch {
	case f != nil:
		return f, nil
	case len(s.byPort) >= maxServices:
		return nil, fault.New(fault.Exhausted, "%d ports have listeners already", maxServices)
	}

	f = newForwarder(loopback("127.0.0.1", port), s.log)
	s.byPort[port] = f

	return f, nil
}

// Close ends all connections.
func (s *services) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()

	for _, f := range s.byPort {
		f.Close()
	}
}

func (s *Server) postListen(w http.ResponseWriter, r *http.Request) {
	port, err := portOf(r)
	if err != nil {
		reply.Error(w, err)
		return
	}

	f, err := s.services.on(port)
	if err != nil {
		reply.Error(w, err)
		return
	}

	f.Upgrade(w, r)
}

func (s *Server) getListeners(w http.ResponseWriter, _ *http.Request) {
	found, err := s.processes.Listeners()
	if err != nil {
		reply.Error(w, err)
		return
	}

	reply.JSON(w, found)
}

// postConnect turns the connection of a request into one to a port inside.
func (s *Server) postConnect(w http.ResponseWriter, r *http.Request) {
	port, err := portOf(r)
	if err == nil && !strings.EqualFold(r.Header.Get("Upgrade"), wire.ConnectUpgrade) {
		err = fault.New(fault.Invalid, "needs the header Upgrade: %s", wire.ConnectUpgrade)
	}

	if err != nil {
		reply.Error(w, err)
		return
	}

	inside, err := connect(r.Context(), port)
	if err != nil {
		reply.Error(w, fault.Wrap(fault.Unavailable, err, "connect to port %d", port))
		return
	}
	defer inside.Close()

	outside, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		reply.Error(w, fault.Wrap(fault.Internal, err, "take over connection"))
		return
	}
	defer outside.Close()

	_, err = rw.WriteString(
		"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + wire.ConnectUpgrade + "\r\n\r\n",
	)
	if err == nil {
		err = rw.Flush()
	}

	if err != nil {
		return
	}

	join(inside, outside, rw)
}

// connect connects to a port of the sandbox, by either version of IP.
func connect(ctx context.Context, port uint16) (conn net.Conn, err error) {
	for _, host := range []string{"127.0.0.1", "::1"} {
		d := net.Dialer{Timeout: connectTime}
		if conn, err = d.DialContext(ctx, "tcp", loopback(host, port)); err == nil {
			return conn, nil
		}
	}

	return nil, err
}

// join copies between the connections until the one inside has nothing more to say; fromOutside reads the other one.
// The end of what comes from outside is passed on, and the answer to it is still copied.
func join(inside, outside net.Conn, fromOutside io.Reader) {
	var sending sync.WaitGroup

	sending.Go(func() {
		_, err := io.Copy(inside, fromOutside)
		if half, ok := inside.(*net.TCPConn); ok && err == nil {
			_ = half.CloseWrite()
			return
		}

		_ = inside.Close()
	})

	_, _ = io.Copy(outside, inside)
	_ = outside.Close()
	_ = inside.Close()

	sending.Wait()
}

func portOf(r *http.Request) (uint16, error) {
	digits := r.PathValue("port")

	port, err := strconv.ParseUint(digits, 10, 16)
	if err != nil || port == 0 {
		return 0, fault.Field("port", "%q is not a port", digits)
	}

	return uint16(port), nil
}

func loopback(host string, port uint16) string {
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}
