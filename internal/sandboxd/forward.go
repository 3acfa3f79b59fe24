package sandboxd

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/net/netutil"
	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/clock"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/sandboxd/backchannel"
	"github.com/rolloutd/rolloutd/internal/sandboxd/reply"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

const (
	// bound of connections by processes of the sandbox; more are not accepted yet
	maxConnections = 128

	// bounds the wait of a connection for the host side
	channelTime = 10 * time.Second
)

// forwarder listens while the network channel is open.
type forwarder struct {
	channel *backchannel.Channel
	address string

	mu sync.Mutex

	// nil: not listening yet
	listener net.Listener
	closed   bool

	// the context of all connections
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// newForwarder returns a forwarder for that address.
func newForwarder(address string, log *slog.Logger) *forwarder {
	ctx, cancel := context.WithCancel(context.Background())
	return &forwarder{channel: backchannel.New(wire.NetworkUpgrade, log), address: address, ctx: ctx, cancel: cancel}
}

// Upgrade turns the connection of a request into the network channel, and begins to listen.
func (f *forwarder) Upgrade(w http.ResponseWriter, r *http.Request) {
	if err := f.listen(); err != nil {
		kind := fault.Unavailable
		if errors.Is(err, unix.EADDRINUSE) {
			kind = fault.Conflict
		}

		reply.Error(w, fault.Wrap(kind, err, "listen for connections of processes"))

		return
	}

	f.channel.Upgrade(w, r)
}

func (f *forwarder) listen() error {
	f.mu.Lock()
	defer f.mu.Unlock()

	if f.listener != nil || f.closed {
		return nil
	}

	l, err := net.Listen("tcp", f.address) //nolint:noctx // loopback
	if err != nil {
		return err
	}

	f.listener = netutil.LimitListener(l, maxConnections)
	f.running.Go(f.accept)

	return nil
}

func (f *forwarder) accept() {
	for {
		conn, err := f.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		// out of descriptors: wait for a connection to end
		if err != nil {
			if clock.Sleep(f.ctx, 100*time.Millisecond) != nil {
				return
			}

			continue
		}

		f.running.Go(func() { f.carry(conn) })
	}
}

// carry sends the connection's data as the body of a request, and the answer's body back.
func (f *forwarder) carry(conn net.Conn) {
	ctx, cancel := context.WithCancel(f.ctx)
	defer cancel()

	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	defer conn.Close()

	waiting, enough := context.WithTimeout(ctx, channelTime)
	defer enough()

	host, err := f.channel.Get(waiting)
	if err != nil {
		return
	}

	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://host/", body{conn})
	if err != nil {
		return
	}

	req.ContentLength = -1

	res, err := host.RoundTrip(req)
	if err != nil {
		return
	}
	defer res.Body.Close()
	// either end may be gone
	_, _ = io.Copy(conn, res.Body)
}

// body is the data of a connection. Close ends a waiting Read, but leaves the connection open for the answer.
type body struct{ net.Conn }

// Close implements io.Closer.
func (b body) Close() error { return b.SetReadDeadline(time.Unix(1, 0)) }

// Close ends all connections and the channel.
func (f *forwarder) Close() {
	f.mu.Lock()

	f.closed = true
	if f.listener != nil {
		_ = f.listener.Close()
	}
	f.mu.Unlock()
	f.cancel()
	f.channel.Close()
	f.running.Wait()
}
