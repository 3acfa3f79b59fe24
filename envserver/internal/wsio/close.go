package wsio

import (
	"context"
	"time"

	"github.com/gorilla/websocket"
)

func (c *conn) close(code int, reason string) {
	_ = c.ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, reason), time.Now().Add(closeWait))
}

// farewell says goodbye and gives the client a moment to answer.
func (c *conn) farewell(ctx context.Context, read <-chan struct{}) {
	select {
	case <-read: // the client has left already
		return
	default:
	}
	switch {
	case ctx.Err() == nil:
		c.close(CloseNormal, "")
	case c.o.CloseCode != 0:
		c.close(c.o.CloseCode, "")
	default:
		c.close(closeRestart, "server shutting down")
	}
	t := time.NewTimer(closeWait)
	defer t.Stop()
	for {
		select {
		case <-read:
			return
		case <-t.C:
			return
		case frame := <-c.frames: // make room, so that the reader comes to the client's close frame
			c.ahead.Release(weight(frame))
		}
	}
}
