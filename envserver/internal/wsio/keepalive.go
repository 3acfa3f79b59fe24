package wsio

import (
	"errors"
	"net"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

// keepAlive pings the client, and cuts it off when nothing was received since the ping before: whether it is gone without a word
// or takes no reply, as then it gets no ping either. It works by a timer rather than by a goroutine or a deadline that moves with
// every frame, so that an idle connection and a quick step cost little. A client that sent more ahead of an answer
// than is queued is not cut off for pongs that are not read meanwhile: that it is gone shows at the ping. The returned function stops it and waits for
// a ping under way.
func (c *conn) keepAlive() (stop func()) {
	c.received.Store(true)
	c.ws.SetPongHandler(func(string) error { c.received.Store(true); return nil })
	var (
		mu      sync.Mutex
		stopped bool
		timer   *time.Timer
	)
	mu.Lock()
	defer mu.Unlock()
	timer = time.AfterFunc(c.o.PingEvery, func() {
		mu.Lock()
		defer mu.Unlock()
		if stopped {
			return
		}
		waits := c.waits()
		if !c.received.Swap(false) && !waits {
			c.end(closeInternal, "keepalive ping timeout")
			return
		}
		// An error here shows at the reader, which is what ends the connection, unless it waits.
		err := c.ws.WriteControl(websocket.PingMessage, nil, time.Now().Add(closeWait))
		if waits && err != nil && !late(err) {
			_ = c.ws.Close()
			c.backlog.leave()
			return
		}
		timer.Reset(c.o.PingEvery)
	})
	return func() {
		mu.Lock()
		defer mu.Unlock()
		stopped = true
		timer.Stop()
	}
}

// waits says that the reader waits for room in the backlog, behind an answer that is being made and not written: one that the client
// does not take is no reason to wait.
func (c *conn) waits() bool {
	if !c.backlog.blocked() || !c.writing.TryLock() {
		return false
	}
	c.writing.Unlock()
	return true
}

// late says that a read or a write ended at its deadline.
func late(err error) bool {
	var slow net.Error
	return errors.As(err, &slow) && slow.Timeout()
}
