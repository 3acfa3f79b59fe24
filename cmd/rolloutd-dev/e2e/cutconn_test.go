package e2e

import (
	"errors"
	"net"
	"sync"
)

// errCut is the error of a cutConn that has used up its bytes.
var errCut = errors.New("cut")

// unbounded is the number of bytes of a direction that is never cut.
const unbounded = -1

// cutConn counts the bytes of a connection, and closes the connection after a number of bytes in one direction.
type cutConn struct {
	net.Conn
	mu sync.Mutex

	// bytes left
	send, receive  int
	sent, received int
}

func (c *cutConn) Write(p []byte) (int, error) {
	n := c.take(&c.send, &c.sent, len(p))

	written, err := c.Conn.Write(p[:n])
	if err == nil && n < len(p) {
		err = errCut
	}

	if c.spent(&c.send) {
		_ = c.Close()
	}

	return written, err
}

func (c *cutConn) Read(p []byte) (int, error) {
	if c.spent(&c.receive) {
		_ = c.Close()
		return 0, errCut
	}

	c.mu.Lock()
	if c.receive != unbounded {
		p = p[:min(len(p), c.receive)]
	}
	c.mu.Unlock()
	n, err := c.Conn.Read(p)
	c.take(&c.receive, &c.received, n)

	return n, err
}

// take subtracts up to n bytes from the remaining bytes of a direction and returns how many it has subtracted.
func (c *cutConn) take(left, done *int, n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()

	if *left != unbounded {
		n = min(n, *left)
		*left -= n
	}

	*done += n

	return n
}

func (c *cutConn) spent(left *int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()

	return *left == 0
}

func (c *cutConn) counts() (sent, received int) {
	c.mu.Lock()
	defer c.mu.Unlock()

	return c.sent, c.received
}
