package wsio

import (
	"io"
	"time"
)

// small is what of a message may arrive in any time, in bytes: it takes no memory that others need.
const small = 16 << 10

// bounded reads one message, and bounds the time in which a large one arrives: a client that stalls within one answers pings all the same.
type bounded struct {
	r    io.Reader
	c    *conn
	read int  // bytes
	set  bool // the bound
}

// Read implements io.Reader.
func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if b.read += n; b.read >= small && !b.set && b.c.o.Within > 0 {
		b.set = true
		b.c.deadline(time.Now().Add(b.c.o.Within))
	}
	if b.set && late(err) {
		b.c.end(closePolicy, "the message did not come in time")
		// What is left unread would reset the connection before the client has read the reason. The time for it is bounded by end.
		_, _ = io.Copy(io.Discard, b.c.ws.NetConn())
	}
	return n, err
}

// arrived lifts the bound.
func (b *bounded) arrived() {
	if b.set {
		b.c.deadline(time.Time{})
	}
}

// deadline bounds reading, but for a connection that is being closed, which has a bound of its own.
func (c *conn) deadline(at time.Time) {
	c.closing.Lock()
	defer c.closing.Unlock()
	if !c.ending.Load() {
		_ = c.ws.SetReadDeadline(at) // an error shows at the next read
	}
}
