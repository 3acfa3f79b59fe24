package wsio

import (
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

// keepAlive pings the client, and cuts it off when nothing was received since the ping before: whether it is gone without a word
// or takes no reply, as then it gets no ping either. It works by a timer rather than by a goroutine or a deadline that moves with
// every frame, so that an idle connection and a quick step cost little. The returned function stops it and waits for a ping
// under way.
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
		if !c.received.Swap(false) {
			c.end(closeInternal, "keepalive ping timeout")
			return
		}
		// An error here shows at the reader, which is what ends the connection.
		_ = c.ws.WriteControl(websocket.PingMessage, nil, time.Now().Add(closeWait))
		timer.Reset(c.o.PingEvery)
	})
	return func() {
		mu.Lock()
		defer mu.Unlock()
		stopped = true
		timer.Stop()
	}
}
