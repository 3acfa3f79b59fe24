package gatewayapi

import (
	"bytes"
	"encoding/json"
	"io"
	"sync"
)

// commands is the body of a request that stays open: Read waits for the next command. The transport closes
// it with the request.
type commands struct {
	mu      sync.Mutex
	changed sync.Cond
	pending bytes.Buffer
	closed  bool
}

func newCommands() *commands {
	c := &commands{}
	c.changed.L = &c.mu

	return c
}

func (c *commands) add(w WatchCommand) {
	// strings and numbers always encode
	line, _ := json.Marshal(w)

	c.mu.Lock()
	defer c.mu.Unlock()

	if c.closed {
		return
	}

	c.pending.Write(append(line, '\n'))
	c.changed.Signal()
}

// Read implements io.Reader.
func (c *commands) Read(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()

	for c.pending.Len() == 0 && !c.closed {
		c.changed.Wait()
	}

	if c.closed {
		return 0, io.EOF
	}

	return c.pending.Read(p)
}

// Close implements io.Closer.
func (c *commands) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()

	c.closed = true
	c.changed.Broadcast()

	return nil
}
