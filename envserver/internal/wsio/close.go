package wsio

import (
	"time"

	"github.com/gorilla/websocket"
)

// closeWait bounds the closing handshake, and each of its writes.
const closeWait = 2 * time.Second

// closeOnShutdown closes the connection when Run's context ends.
func (c *conn) closeOnShutdown() {
	if c.o.CloseCode != 0 {
		c.sendClose(c.o.CloseCode, "")
		return
	}

	c.sendClose(closeRestart, "server shutting down")
}

// sendClose sends a close frame, once. The client then has closeWait to answer it and to read what is being
// written. The reader ends the connection.
func (c *conn) sendClose(code int, reason string) {
	c.closeMu.Lock()
	already := c.closeSent.Swap(true)
	c.closeMu.Unlock()

	if already {
		return
	}

	_ = c.ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, reason), time.Now().Add(closeWait))
	_ = c.ws.NetConn().SetDeadline(time.Now().Add(closeWait))
}
