package wsio

import (
	"io"
	"time"
)

// untimedBytes is how much of a message may arrive in any time: a small message holds no memory that other
// clients need.
const untimedBytes = 16 << 10

// timedReader reads one message and bounds the time in which a large message arrives. Pings do not detect a
// client that stalls within a message, because it still answers them.
type timedReader struct {
	r io.Reader
	c *conn

	// bytes
	read int

	// the read deadline is set
	timed bool
}

// Read implements io.Reader.
func (b *timedReader) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if b.read += n; b.read >= untimedBytes && !b.timed && b.c.o.MessageTimeout > 0 {
		b.timed = true
		b.c.deadline(time.Now().Add(b.c.o.MessageTimeout))
	}

	if b.timed && isTimeout(err) {
		b.c.sendClose(closePolicy, "the message did not come in time")
		// Unread data would reset the connection before the client has read the reason. sendClose bounds the time.
		_, _ = io.Copy(io.Discard, b.c.ws.NetConn())
	}

	return n, err
}

// lift removes the read deadline.
func (b *timedReader) lift() {
	if b.timed {
		b.c.deadline(time.Time{})
	}
}

// deadline sets the read deadline, except on a connection that is being closed: sendClose has set its deadline.
func (c *conn) deadline(at time.Time) {
	c.closeMu.Lock()
	defer c.closeMu.Unlock()

	if !c.closeSent.Load() {
		// the next read returns the error
		_ = c.ws.SetReadDeadline(at)
	}
}
