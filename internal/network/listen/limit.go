package listen

import (
	"container/list"
	"context"
	"net"
	"net/http"
	"sync"
)

// spare is how many connections over a limit are accepted at once, so that their clients get an answer.
// Further clients wait in the kernel's queue.
const spare = 64

// Limited is a listener that bounds the connections that are open at once.
//
// At the limit a new connection takes the place of the untrusted one that has been at rest the longest:
// clients without a token cannot keep out those with one by holding connections. If none is at rest, the
// new connection is accepted over the limit, because a client can get an error only on a connection; Over
// identifies it.
//
// An http.Server that serves a Limited has ConnContext and ConnState of this package in its fields of the
// same names, and its handler calls Serving first: a connection whose request has not arrived completely is
// at rest.
type Limited struct {
	*net.TCPListener
	max int

	// one for each open connection
	slots  chan struct{}
	closed chan struct{}
	once   sync.Once

	mu sync.Mutex

	// elements are *conn: those at rest and not trusted, the longest at rest first
	rest list.List
}

// Limit lets at most limit connections of l be open at once.
func Limit(l *net.TCPListener, limit int) *Limited {
	return &Limited{TCPListener: l, max: limit, slots: make(chan struct{}, limit+spare), closed: make(chan struct{})}
}

// Accept waits for a connection.
func (l *Limited) Accept() (net.Conn, error) {
	if len(l.slots) == cap(l.slots) {
		l.evict()
	}

	select {
	case l.slots <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}

	tcp, err := l.AcceptTCP()
	if err != nil {
		<-l.slots
		return nil, err
	}

	over := len(l.slots) > l.max && !l.evict()
	c := &conn{TCPConn: tcp, over: over, from: l}
	l.atRest(c)

	return c, nil
}

// Close stops listening.
func (l *Limited) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.TCPListener.Close()
}

// evict closes the connection that has been idle the longest, and reports whether there was one.
func (l *Limited) evict() bool {
	l.mu.Lock()
	first := l.rest.Front()
	l.mu.Unlock()

	if first == nil {
		return false
	}

	c, _ := first.Value.(*conn)
	// no request is under way on it
	_ = c.Close()

	return true
}

// atRest notes that a connection waits for a request.
func (l *Limited) atRest(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()

	l.removeIdle(c)

	if !c.trusted && !c.closed {
		c.place = l.rest.PushBack(c)
	}
}

// busy notes that a connection is at rest no longer.
func (l *Limited) busy(c *conn, gone bool) {
	l.mu.Lock()
	defer l.mu.Unlock()

	c.closed = c.closed || gone
	l.removeIdle(c)
}

// removeIdle removes a connection from the idle ones; l.mu is held.
func (l *Limited) removeIdle(c *conn) {
	if c.place != nil {
		l.rest.Remove(c.place)
		c.place = nil
	}
}

// conn is a connection of a Limited. It embeds the type rather than the interface, since it is more than a net.Conn to
// its writers: half of it can be closed, and many buffers can be written at once.
type conn struct {
	*net.TCPConn
	over bool
	from *Limited
	once sync.Once

	// Guarded by from.mu.
	trusted, closed bool

	// in from.rest; nil: not at rest
	place *list.Element
}

func (c *conn) Close() error {
	c.once.Do(func() {
		c.from.busy(c, true)
		<-c.from.slots
	})

	return c.TCPConn.Close()
}

type connKey struct{}

// ConnContext adds a request's connection to its context, for Over and Trust.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	if mine, ok := c.(*conn); ok {
		return context.WithValue(ctx, connKey{}, mine)
	}

	return ctx
}

// ConnState notes which connections are at rest again.
func ConnState(c net.Conn, s http.ConnState) {
	if mine, ok := c.(*conn); ok && s == http.StateIdle {
		mine.from.atRest(mine)
	}
}

// Serving notes that a request's connection is not at rest until the request is answered.
func Serving(ctx context.Context) {
	if c, ok := ctx.Value(connKey{}).(*conn); ok {
		c.from.busy(c, false)
	}
}

// Over reports whether a request came on a connection over the limit.
func Over(ctx context.Context) bool {
	c, ok := ctx.Value(connKey{}).(*conn)
	return ok && c.over
}

// Trust protects the connection of a request with a valid token from being closed to make room.
func Trust(ctx context.Context) {
	if c, ok := ctx.Value(connKey{}).(*conn); ok {
		c.from.mu.Lock()
		defer c.from.mu.Unlock()

		c.trusted = true
	}
}
