package wsio_test

import (
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/envserver/internal/wsio"
)

// watched is a listener whose connections pass each read deadline to watch.
type watched struct {
	net.Listener
	watch func(time.Time)
}

func (l watched) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return &watchedConn{c, l.watch}, err
}

type watchedConn struct {
	net.Conn
	watch func(time.Time)
}

func (c *watchedConn) SetReadDeadline(at time.Time) error {
	c.watch(at)
	return c.Conn.SetReadDeadline(at)
}

// The connection of a client that stalls within a large message ends, although it answers pings. The client
// gets the reason.
func TestMessageThatStalls(t *testing.T) {
	t.Parallel()
	c, over := serve(t, wsio.Options{MessageTimeout: time.Millisecond}, mixedHandler(nil))
	w, err := c.NextWriter(websocket.TextMessage)
	require.NoError(t, err)
	// the final frame is never sent
	_, err = w.Write([]byte(strings.Repeat("x", 64<<10)))
	require.NoError(t, err)
	_, _, err = c.ReadMessage()
	require.True(t, websocket.IsCloseError(err, websocket.ClosePolicyViolation), "%v", err)
	closed(t, over)
}

// Only large messages have a deadline, which is removed when the message has arrived.
func TestMessageDeadlineIsRemoved(t *testing.T) {
	t.Parallel()

	var last atomic.Pointer[time.Time]

	c, _ := serveWatched(
		t.Context(),
		t,
		wsio.Options{MessageTimeout: patience},
		mixedHandler(nil),
		func(at time.Time) { last.Store(&at) },
	)
	send(t, c, "small")
	require.Equal(t, "small", read(t, c))
	last.Store(nil)
	send(t, c, "small")
	require.Equal(t, "small", read(t, c))
	require.Nil(t, last.Load(), "a small message has no deadline")

	large := strings.Repeat("x", 100_000)
	send(t, c, large)
	require.Equal(t, large, read(t, c))
	require.NotNil(t, last.Load())
	require.Zero(t, *last.Load(), "the deadline is removed")
}

// A client that sends more frames ahead of a long answer than the queue holds gets every answer, although
// the server reads no pongs while the queue is full.
func TestFullQueueBehindALongAnswer(t *testing.T) {
	t.Parallel()

	const frames, pings = 100, 2

	let, pinged := make(chan struct{}), 0
	c, _ := serve(t, wsio.Options{PingEvery: 5 * time.Second}, mixedHandler(let))
	answer := c.PingHandler()
	c.SetPingHandler(func(data string) error {
		if pinged++; pinged == pings {
			close(let)
		}

		return answer(data)
	})
	send(t, c, "slow")

	for i := range frames {
		send(t, c, fmt.Sprint(i))
	}

	require.Equal(t, "slow", read(t, c))

	for i := range frames {
		require.Equal(t, fmt.Sprint(i), read(t, c))
	}

	require.GreaterOrEqual(t, pinged, pings)
}

// The server detects that a client with a full queue has disconnected, and cancels its answer.
func TestClientDisconnectsWithAFullQueue(t *testing.T) {
	t.Parallel()

	begun, cause := make(chan struct{}), make(chan error, 1)
	c, over := serve(t, wsio.Options{PingEvery: time.Second}, untilCanceled(begun, cause))
	send(t, c, "work")

	for range 100 {
		send(t, c, "more")
	}

	<-begun
	require.NoError(t, c.NetConn().Close())
	require.ErrorIs(t, <-cause, errGone)
	closed(t, over)
}
