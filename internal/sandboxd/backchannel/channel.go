package backchannel

import (
	"bufio"
	"context"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/sandboxd/reply"
)

// Channel holds the current connection that the host side has made, if any. It is safe for concurrent use.
type Channel struct {
	// the Upgrade token
	protocol string
	log      *slog.Logger

	mu sync.Mutex

	// nil: none
	conn *http.ClientConn

	// closed when conn is set
	changed chan struct{}
}

// New returns a Channel without a connection. protocol is the Upgrade token of its requests.
func New(protocol string, log *slog.Logger) *Channel {
	return &Channel{protocol: protocol, log: log, changed: make(chan struct{})}
}

// Get returns the current connection, and waits for one if there is none that works.
func (c *Channel) Get(ctx context.Context) (*http.ClientConn, error) {
	for {
		c.mu.Lock()
		conn, changed := c.conn, c.changed
		c.mu.Unlock()

		if conn != nil && conn.Err() == nil {
			return conn, nil
		}

		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-changed:
		}
	}
}

// Broken reports whether conn cannot be used any more.
func (c *Channel) Broken(conn *http.ClientConn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()

	return conn != c.conn || conn.Err() != nil
}

// set makes conn the current connection, and ends the previous one: its calls are sent again on conn.
func (c *Channel) set(conn *http.ClientConn) {
	c.mu.Lock()
	old := c.conn
	c.conn = conn
	close(c.changed)
	c.changed = make(chan struct{})
	c.mu.Unlock()

	if old != nil {
		_ = old.Close()
	}
}

// Close ends the connection.
func (c *Channel) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()

	if c.conn != nil {
		_ = c.conn.Close()
	}
}

// Upgrade turns the connection of a request into the channel: HTTP/2 with this side as the client.
func (c *Channel) Upgrade(w http.ResponseWriter, r *http.Request) {
	if !strings.EqualFold(r.Header.Get("Upgrade"), c.protocol) {
		reply.Error(w, fault.New(fault.Invalid, "needs the header Upgrade: %s", c.protocol))
		return
	}

	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		reply.Error(w, fault.Wrap(fault.Internal, err, "take over connection"))
		return
	}

	client, err := c.upgrade(conn, rw)
	if err != nil {
		c.log.Warn("channel refused", "protocol", c.protocol, "error", err)

		_ = conn.Close()

		return
	}

	c.set(client)
	c.log.Info("channel open", "protocol", c.protocol)
}

func (c *Channel) upgrade(conn net.Conn, rw *bufio.ReadWriter) (*http.ClientConn, error) {
	if rw.Reader.Buffered() > 0 {
		return nil, fault.New(fault.Invalid, "the host side sent data before the upgrade")
	}

	_, err := rw.WriteString(
		"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + c.protocol + "\r\n\r\n",
	)
	if err == nil {
		err = rw.Flush()
	}

	if err != nil {
		return nil, err
	}

	t := &http.Transport{
		Protocols:          new(http.Protocols),
		DisableCompression: true,
		DialContext:        func(context.Context, string, string) (net.Conn, error) { return conn, nil },
		HTTP2:              &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second},
	}
	t.Protocols.SetUnencryptedHTTP2(true)

	return t.NewClientConn(context.Background(), "http", "gateway:80")
}
