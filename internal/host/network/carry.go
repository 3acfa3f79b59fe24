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

// tunnel carries bytes in both directions until both have ended, or one has failed.
func (p *Proxy) tunnel(
	ctx context.Context,
	cancel context.CancelFunc,
	in io.Reader,
	conn io.ReadWriteCloser,
	up net.Conn,
	e *ProxyEntry,
) {
	if _, err := io.WriteString(conn, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}

	idle := p.watch(ctx, cancel, up)
	defer idle.stop()

	var (
		sent, received atomic.Int64
		both           sync.WaitGroup
	)
	both.Go(func() {
		_, err := io.Copy(&counter{up, &sent, idle}, in)
		if tcp, ok := up.(interface{ CloseWrite() error }); ok && err == nil {
			_ = tcp.CloseWrite()
			return
		}

		cancel()
	})
	// either end may be gone
	_, _ = io.Copy(&counter{conn, &received, idle}, up)
	// the other direction can get no answer any more
	cancel()
	both.Wait()

	e.Sent, e.Received = sent.Load(), received.Load()
}

// forward sends one request and returns its answer. The connection is closed after it.
func (p *Proxy) forward(
	ctx context.Context,
	cancel context.CancelFunc,
	req *http.Request,
	conn io.ReadWriteCloser,
	up net.Conn,
	e *ProxyEntry,
) {
	idle := p.watch(ctx, cancel, up)
	defer idle.stop()

	var sent, received atomic.Int64
	defer func() { e.Sent, e.Received = sent.Load(), received.Load() }()

	for _, name := range []string{
		"Proxy-Connection", "Proxy-Authorization", "Connection", "Keep-Alive", "Te", "Upgrade",
	} {
		req.Header.Del(name)
	}

	t := &http.Transport{
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			return &countedConn{up, &sent, &received, idle}, nil
		},
		DisableCompression: true, DisableKeepAlives: true, MaxResponseHeaderBytes: maxHeader,
	}
	req.RequestURI = ""

	res, err := t.RoundTrip(req.WithContext(ctx))
	if err != nil {
		e.Error = err.Error()
		_ = answer(conn, http.StatusBadGateway, e.Error)

		return
	}
	defer res.Body.Close()

	res.Close = true
	if err := res.Write(conn); err != nil {
		e.Error = err.Error()
	}
}

// idleWatch ends a connection without traffic.
type idleWatch struct {
	atMost time.Duration
	timer  *time.Timer
	end    func() bool
}

// watch closes up when ctx ends, and cancels ctx after the idle time without traffic.
func (p *Proxy) watch(ctx context.Context, cancel context.CancelFunc, up net.Conn) *idleWatch {
	return &idleWatch{p.o.Idle, time.AfterFunc(p.o.Idle, cancel), context.AfterFunc(ctx, func() { _ = up.Close() })}
}

func (w *idleWatch) moved() {
	if w.timer.Stop() {
		w.timer.Reset(w.atMost)
	}
}

func (w *idleWatch) stop() {
	w.timer.Stop()
	w.end()
}

// counter counts what is written.
type counter struct {
	w    io.Writer
	n    *atomic.Int64
	idle *idleWatch
}

// Write implements io.Writer.
func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n.Add(int64(n))
	c.idle.moved()

	return n, err
}

// countedConn counts both directions.
type countedConn struct {
	net.Conn
	sent, received *atomic.Int64
	idle           *idleWatch
}

// Read implements net.Conn.
func (c *countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.received.Add(int64(n))
	c.idle.moved()

	return n, err
}

// Write implements net.Conn.
func (c *countedConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.sent.Add(int64(n))
	c.idle.moved()

	return n, err
}
