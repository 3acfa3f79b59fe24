package sandbox

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// ServeModel serves the model calls of the sandbox's agent with h until ctx ends (nil) or the connection
// breaks (an error; a newer ServeModel of the same sandbox breaks an older one). It calls served, which may
// be nil, when the channel is open. After a break the caller dials again; sandboxd repeats unanswered calls
// under the same wire.CallIDHeader. ServeModel returns when every handler has returned.
func (b *Backend) ServeModel(ctx context.Context, id string, h http.Handler, served func()) error {
	if err := checkID(id); err != nil {
		return err
	}

	conn, err := b.upgrade(ctx, id, "/v1/model", wire.ModelUpgrade)
	if err == nil {
		if served != nil {
			served()
		}

		err = fault.Wrap(fault.Unavailable, serveHTTP2(ctx, conn, h, b.log), "serve")
	}

	if ctx.Err() != nil {
		return nil
	}

	return fmt.Errorf("model channel of sandbox %q: %w", id, err)
}

// upgrade dials the sandbox and upgrades the connection to a channel of that path and protocol.
func (b *Backend) upgrade(ctx context.Context, id, path, protocol string) (net.Conn, error) {
	conn, err := b.driver.Dial(ctx, id)
	if err != nil {
		return nil, err
	}

	_ = conn.SetDeadline(time.Now().Add(b.silence))
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })

	upgraded, err := switchProtocol(conn, id, path, protocol)
	if !stop() || err != nil {
		_ = conn.Close()

		if err == nil {
			err = ctx.Err()
		}

		return nil, err
	}

	_ = conn.SetDeadline(time.Time{})

	return upgraded, nil
}

func switchProtocol(conn net.Conn, id, path, protocol string) (net.Conn, error) {
	req, err := http.NewRequest(http.MethodPost, "http://"+id+path, http.NoBody)
	if err != nil {
		return nil, err
	}

	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", protocol)

	if err := req.Write(conn); err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "send upgrade")
	}

	r := bufio.NewReader(conn)

	res, err := http.ReadResponse(r, req)
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "read upgrade")
	}

	if res.StatusCode != http.StatusSwitchingProtocols {
		defer freeConnection(res)
		return nil, remoteError(res)
	}

	return &bufferedConn{Conn: conn, r: r}, nil
}

// bufferedConn first reads the bytes that arrived after the response's header.
type bufferedConn struct {
	net.Conn
	r io.Reader
}

func (c *bufferedConn) Read(p []byte) (int, error) { return c.r.Read(p) }

// CloseWrite tells the other end that the stream has ended, where the driver's connections can.
func (c *bufferedConn) CloseWrite() error {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok {
		return errors.ErrUnsupported
	}

	return half.CloseWrite()
}
