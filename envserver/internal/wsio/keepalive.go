package wsio

import (
	"errors"
	"net"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

// keepAlive pings the client and ends the connection when nothing was received since the previous ping.
// That detects a client that disappeared, and a client that does not read its reply, because a ping waits
// behind the reply. It uses a timer instead of a goroutine or a deadline that moves with every frame, so
// that an idle connection and a quick step cost little.
//
// While the backlog is full the server does not read pongs. The connection then ends only when a ping
// cannot be written. The returned function stops the pings and waits for a ping under way.
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
			c.sendClose(closeInternal, "keepalive ping timeout")
			return
		}
		// The reader gets the same error and ends the connection, unless it waits for room in the backlog.
		err := c.ws.WriteControl(websocket.PingMessage, nil, time.Now().Add(closeWait))
		if waits && err != nil && !isTimeout(err) {
			_ = c.ws.Close()
			c.backlog.markGone()

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

// waits reports whether the reader waits for room in the backlog while an answer is computed. It is false
// while a reply is written: a client that does not read its reply is not alive.
func (c *conn) waits() bool {
	if !c.backlog.readerBlocked() || !c.writeMu.TryLock() {
		return false
	}
	c.writeMu.Unlock()

	return true
}

// isTimeout reports whether a read or a write ended at its deadline.
func isTimeout(err error) bool {
	var slow net.Error
	return errors.As(err, &slow) && slow.Timeout()
}
