package listen

import (
	"context"
	"net"
	"sync"
)

// spare is how many connections over a limit are open at once to get an error. Further clients wait in the kernel's queue.
const spare = 64

// Limited is a listener that bounds the open connections. It accepts some connections over the limit too, so that their clients get an
// error; Over identifies them.
type Limited struct {
	*net.TCPListener
	max    int
	slots  chan struct{} // one for each open connection
	closed chan struct{}
	once   sync.Once
}

// Limit returns a listener with at most limit open connections of l.
func Limit(l *net.TCPListener, limit int) *Limited {
	return &Limited{TCPListener: l, max: limit, slots: make(chan struct{}, limit+spare), closed: make(chan struct{})}
}

// Accept waits for a connection.
func (l *Limited) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	c, err := l.AcceptTCP()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &conn{TCPConn: c, over: len(l.slots) > l.max, slots: l.slots}, nil
}

// Close stops listening.
func (l *Limited) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.TCPListener.Close()
}

// conn is a connection of a Limited. It embeds the concrete type to keep CloseWrite and the vectored writes of net.Buffers.
type conn struct {
	*net.TCPConn
	over  bool
	slots <-chan struct{}
	once  sync.Once
}

func (c *conn) Close() error {
	c.once.Do(func() { <-c.slots })
	return c.TCPConn.Close()
}

type overKey struct{}

// ConnContext marks the connections for Over. Set it as ConnContext of the http.Server.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	if mine, ok := c.(*conn); ok && mine.over {
		return context.WithValue(ctx, overKey{}, true)
	}
	return ctx
}

// Over reports whether a request came over a connection that exceeds the limit.
func Over(ctx context.Context) bool { return ctx.Value(overKey{}) != nil }
