package wsio

import (
	"time"

	"github.com/gorilla/websocket"
)

// closeWait bounds the closing handshake, and each of its writes.
const closeWait = 2 * time.Second

// farewell is the close frame that a client gets when Run's context ends.
func (c *conn) farewell() {
	if c.o.CloseCode != 0 {
		c.end(c.o.CloseCode, "")
		return
	}
	c.end(closeRestart, "server shutting down")
}

// end says goodbye and gives the client a moment to answer, or to take what is being written. The reader ends the connection.
func (c *conn) end(code int, reason string) {
	c.closing.Lock()
	already := c.ending.Swap(true)
	c.closing.Unlock()
	if already {
		return
	}
	_ = c.ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, reason), time.Now().Add(closeWait))
	_ = c.ws.NetConn().SetDeadline(time.Now().Add(closeWait))
}
