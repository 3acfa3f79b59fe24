package wsio

import (
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

// extend puts off the moment at which a silent client is cut off.
func (c *conn) extend() { _ = c.ws.SetReadDeadline(time.Now().Add(2 * c.o.PingEvery)) }

// keepAlive pings the client by a timer rather than by a goroutine, so that an idle connection costs little. The returned
// function stops it and waits for a ping under way.
func (c *conn) keepAlive() (stop func()) {
	c.ws.SetReadLimit(c.o.MaxMessage)
	c.extend()
	c.ws.SetPongHandler(func(string) error { c.extend(); return nil })
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
