// Package wsio runs one WebSocket connection: frames are read at all times, so that pings are answered and a client that
// leaves is noticed, while they are handled strictly one after another.
package wsio

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/gorilla/websocket"
	"golang.org/x/sync/semaphore"
)

// Close codes of RFC 6455 that we send.
const (
	CloseNormal   = websocket.CloseNormalClosure
	closeRestart  = websocket.CloseServiceRestart
	closeInternal = websocket.CloseInternalServerErr
)

const (
	// queued is how many frames a client may send ahead, and queuedBytes how much of them is kept.
	queued      = 64
	queuedBytes = 32 << 20
	// closeWait bounds the closing handshake.
	closeWait = 2 * time.Second
)

// Options of a connection.
type Options struct {
	// PingEvery is the time between pings; a client that answers none for twice as long is cut off.
	PingEvery time.Duration
	// MaxMessage is the largest frame taken, in bytes; at most queuedBytes counts against what is sent ahead.
	MaxMessage int64
	// CloseCode is sent when Run's context ends; default 1012 (the service restarts).
	CloseCode int
	// Gone is the cause with which a handler's context ends when the client leaves.
	Gone error
}

// Handler answers one frame. No reply is nil; more is false to close the connection normally.
type Handler func(ctx context.Context, frame []byte) (reply []byte, more bool)

type conn struct {
	ws     *websocket.Conn
	o      Options
	frames chan []byte
	ahead  *semaphore.Weighted
}

// Run handles frames until the client leaves, the handler ends the connection (close code 1000), or ctx ends. It closes ws.
func Run(ctx context.Context, ws *websocket.Conn, o Options, h Handler) {
	c := &conn{ws: ws, o: o, frames: make(chan []byte, queued), ahead: semaphore.NewWeighted(queuedBytes)}
	live, cancel := context.WithCancelCause(ctx)
	read := make(chan struct{})
	stopPings := c.keepAlive()
	go func() {
		defer close(read)
		cancel(c.read(live))
	}()
	c.serve(live, h)
	c.farewell(ctx, read)
	cancel(nil)
	stopPings()
	_ = ws.Close() // ends the reader, if the handshake has not
	<-read
}

// serve handles queued frames one by one.
func (c *conn) serve(ctx context.Context, h Handler) {
	for {
		select {
		case <-ctx.Done():
			return
		case frame := <-c.frames:
			reply, more := h(ctx, frame)
			c.ahead.Release(weight(frame))
			if ctx.Err() != nil || !c.write(reply) || !more {
				return
			}
		}
	}
}

func (c *conn) write(reply []byte) bool {
	if reply == nil {
		return true
	}
	err := c.ws.WriteMessage(websocket.TextMessage, reply)
	c.extend() // a long write is a sign of life, too
	return err == nil
}

// read queues frames until the connection ends, and returns the cause.
func (c *conn) read(ctx context.Context) error {
	for {
		_, frame, err := c.ws.ReadMessage()
		if err != nil {
			c.tell(err)
			return c.o.Gone
		}
		c.extend()
		if c.ahead.Acquire(ctx, weight(frame)) != nil {
			return c.o.Gone
		}
		select {
		case c.frames <- frame:
		case <-ctx.Done():
			return c.o.Gone
		}
	}
}

// tell lets a client that answered no ping know why it is cut off; other read errors are the client's own doing, or have
// been answered by the library (1009 for a message too large).
func (c *conn) tell(err error) {
	var slow net.Error
	if errors.As(err, &slow) && slow.Timeout() {
		c.close(closeInternal, "keepalive ping timeout")
	}
}

func weight(frame []byte) int64 { return min(int64(len(frame)), queuedBytes) }
