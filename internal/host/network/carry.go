package network

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// tunnel carries bytes in both directions until both have ended, or one has failed. cancel ends both connections.
func tunnel(cancel context.CancelFunc, in io.Reader, conn io.ReadWriteCloser, up *hostConn) {
	if _, err := io.WriteString(conn, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}

	var sending sync.WaitGroup

	sending.Go(func() {
		_, err := io.Copy(up, in)
		if tcp, ok := up.Conn.(interface{ CloseWrite() error }); ok && err == nil {
			_ = tcp.CloseWrite()
			return
		}

		cancel()
	})
	// either end may be gone
	_, _ = io.Copy(conn, up)
	// the other direction can get no answer any more
	cancel()
	sending.Wait()
}

// forward sends one request and returns its answer. The connection is closed after it.
func forward(ctx context.Context, req *http.Request, conn io.ReadWriteCloser, up *hostConn) error {
	for _, name := range []string{
		"Proxy-Connection", "Proxy-Authorization", "Connection", "Keep-Alive", "Te", "Upgrade",
	} {
		req.Header.Del(name)
	}

	t := &http.Transport{
		DialContext:        func(context.Context, string, string) (net.Conn, error) { return up, nil },
		DisableCompression: true, DisableKeepAlives: true, MaxResponseHeaderBytes: maxHeader,
	}
	req.RequestURI = ""

	res, err := t.RoundTrip(req.WithContext(ctx))
	if err != nil {
		_ = answer(conn, http.StatusBadGateway, err.Error())
		return err
	}
	defer res.Body.Close()

	res.Close = true

	return res.Write(conn)
}

// hostConn is a connection to a host. It counts its bytes, and ends after a time without any.
type hostConn struct {
	net.Conn
	sent, received atomic.Int64

	atMost time.Duration
	idle   *time.Timer
}

// Read implements net.Conn.
func (c *hostConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.count(&c.received, n)

	return n, err
}

// Write implements net.Conn.
func (c *hostConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.count(&c.sent, n)

	return n, err
}

func (c *hostConn) count(bytes *atomic.Int64, n int) {
	bytes.Add(int64(n))

	if c.idle.Stop() {
		c.idle.Reset(c.atMost)
	}
}
