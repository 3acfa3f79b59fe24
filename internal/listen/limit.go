package listen

import (
	"context"
	"net"
	"sync"
)

// spare is how many connections over a limit are held at once so that they are told why. Beyond them the kernel's queue is where
// clients wait.
const spare = 64

// Limited is a listener that bounds the connections that are open at once. Those over the limit are accepted all the same, for a
// client can only be told what is wrong on a connection; Over tells them from the others.
type Limited struct {
	*net.TCPListener
	max    int
	slots  chan struct{} // one for each open connection
	closed chan struct{}
	once   sync.Once
}

// Limit lets at most limit connections of l be open at once.
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

// conn is a connection of a Limited. It embeds the type rather than the interface, as that is more than a net.Conn to those who
// write to it: half of it can be closed, and many buffers be written at once.
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

// ConnContext is for the field of an http.Server, whose requests Over then knows.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	if mine, ok := c.(*conn); ok && mine.over {
		return context.WithValue(ctx, overKey{}, true)
	}
	return ctx
}

// Over says whether a request came on a connection over the limit.
func Over(ctx context.Context) bool { return ctx.Value(overKey{}) != nil }
