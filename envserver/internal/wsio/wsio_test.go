package wsio_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/envserver/internal/wsio"
	"github.com/rolloutd/rolloutd/internal/input/membudget"
)

// patience bounds waits that only a bug makes long.
const patience = 5 * time.Minute

const maxMessage = 1 << 20

var errGone = errors.New("gone")

// serve runs h for a client. It returns the client and a channel that closes when Run has returned.
func serve(t *testing.T, o wsio.Options, h wsio.Handler) (*websocket.Conn, <-chan struct{}) {
	t.Helper()
	return serveWatched(t.Context(), t, o, h, nil)
}

// serveWatched serves until ctx ends, and calls watch, unless it is nil, with each read deadline that the server sets.
func serveWatched(
	ctx context.Context,
	t *testing.T,
	o wsio.Options,
	h wsio.Handler,
	watch func(time.Time),
) (*websocket.Conn, <-chan struct{}) {
	t.Helper()

	o.ErrGone, o.MaxMessage, o.Memory = errGone, maxMessage, membudget.New(1<<30, 16<<10).Of("")
	if o.PingEvery == 0 {
		o.PingEvery = patience
	}
	// a slow machine must not look like a client that gave up
	if o.GiveUpAfter == 0 {
		o.GiveUpAfter = patience
	}

	over := make(chan struct{})

	var up websocket.Upgrader

	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(over)

		if ws, err := up.Upgrade(w, r, nil); err == nil {
			wsio.Run(ctx, ws, o, h)
		}
	}))
	if watch != nil {
		srv.Listener = watched{srv.Listener, watch}
	}

	srv.Start()
	t.Cleanup(srv.Close)
	c, resp, err := websocket.DefaultDialer.DialContext(t.Context(), "ws"+strings.TrimPrefix(srv.URL, "http"), nil)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.SetReadDeadline(time.Now().Add(patience)))

	return c, over
}

func send(t *testing.T, c *websocket.Conn, frame string) {
	t.Helper()
	require.NoError(t, c.WriteMessage(websocket.TextMessage, []byte(frame)))
}

func read(t *testing.T, c *websocket.Conn) string {
	t.Helper()

	_, raw, err := c.ReadMessage()
	require.NoError(t, err)

	return string(raw)
}

func closed(t *testing.T, over <-chan struct{}) {
	t.Helper()

	select {
	case <-over:
	case <-time.After(patience):
		require.Fail(t, "the connection does not end")
	}
}

// mixedHandler answers "slow…" when let has a token, and everything else at once.
func mixedHandler(let <-chan struct{}) wsio.Handler {
	return func(frame []byte) wsio.Answer {
		if !strings.HasPrefix(string(frame), "slow") {
			return wsio.Answer{Reply: [][]byte{frame}}
		}

		return wsio.Answer{Later: func(ctx context.Context) wsio.Answer {
			select {
			case <-let:
			case <-ctx.Done():
			}

			return wsio.Answer{Reply: [][]byte{frame}}
		}}
	}
}

// Replies have the order of their requests, whether they are quick or slow, and even if there are more
// requests than the queue holds.
func TestRepliesKeepTheOrder(t *testing.T) {
	t.Parallel()

	const frames = 300

	let := make(chan struct{}, frames)
	c, _ := serve(t, wsio.Options{}, mixedHandler(let))

	name := func(i int) string {
		if i%3 == 0 {
			return fmt.Sprint("slow ", i)
		}

		return fmt.Sprint("quick ", i)
	}
	go func() {
		for i := range frames {
			// reading reports a failure
			_ = c.WriteMessage(websocket.TextMessage, []byte(name(i)))
			if i%2 == 0 {
				let <- struct{}{}
			}
		}
	}()

	for i := range frames {
		require.Equal(t, name(i), read(t, c))
	}
}

// A reply is one message, whatever the sizes of its pieces.
func TestPiecesAreOneMessage(t *testing.T) {
	t.Parallel()

	large := strings.Repeat("large", 10_000)

	c, _ := serve(t, wsio.Options{}, func(frame []byte) wsio.Answer {
		return wsio.Answer{Reply: [][]byte{[]byte("<"), frame, []byte(large), {}, []byte(">")}}
	})
	for _, frame := range []string{"a", large, ""} {
		send(t, c, frame)
		require.Equal(t, "<"+frame+large+">", read(t, c))
	}
}

// A frame whose answer ends the connection ends it in order: frames before it are answered, frames after it are not.
func TestCloseInOrder(t *testing.T) {
	t.Parallel()

	let := make(chan struct{})
	quick := mixedHandler(let)

	c, over := serve(t, wsio.Options{}, func(frame []byte) wsio.Answer {
		if string(frame) == "bye" {
			return wsio.Answer{Reply: [][]byte{[]byte("goodbye")}, Close: wsio.CloseNormal}
		}

		return quick(frame)
	})
	for _, frame := range []string{"slow", "before", "bye", "after"} {
		send(t, c, frame)
	}

	close(let)
	require.Equal(t, "slow", read(t, c))
	require.Equal(t, "before", read(t, c))
	require.Equal(t, "goodbye", read(t, c))
	_, _, err := c.ReadMessage()
	require.True(t, websocket.IsCloseError(err, wsio.CloseNormal), "%v", err)
	closed(t, over)
}

// A frame that is too large is refused in order, after it has arrived. A frame of exactly the maximum is answered.
func TestFrameTooLargeIsAnswered(t *testing.T) {
	t.Parallel()

	let := make(chan struct{})
	refuse := func(error) wsio.Answer { return wsio.Answer{Reply: [][]byte{[]byte("too large")}} }
	c, _ := serve(t, wsio.Options{Refuse: refuse}, mixedHandler(let))

	fits := strings.Repeat("x", maxMessage)
	for _, frame := range []string{"slow", fits + "x", strings.Repeat(fits, 20), fits, ""} {
		send(t, c, frame)
	}

	close(let)

	for _, want := range []string{"slow", "too large", "too large", fits, ""} {
		require.Equal(t, want, read(t, c))
	}
}

// untilCanceled answers "work" when the context of the answer ends, whose cause it sends, and echoes every other frame.
func untilCanceled(begun chan<- struct{}, cause chan<- error) wsio.Handler {
	return func(frame []byte) wsio.Answer {
		if string(frame) != "work" {
			return wsio.Answer{Reply: [][]byte{frame}}
		}

		return wsio.Answer{Later: func(ctx context.Context) wsio.Answer {
			close(begun)
			<-ctx.Done()

			cause <- context.Cause(ctx)

			return wsio.Answer{}
		}}
	}
}

// A client that disconnects ends the context of its answer.
func TestDisconnectCancelsTheAnswer(t *testing.T) {
	t.Parallel()

	begun, cause := make(chan struct{}), make(chan error, 1)
	c, over := serve(t, wsio.Options{}, untilCanceled(begun, cause))
	send(t, c, "work")
	<-begun
	require.NoError(t, c.NetConn().Close())
	require.ErrorIs(t, <-cause, errGone)
	closed(t, over)
}

// lateContext ends, but tells only the first of those who wait for that.
type lateContext struct {
	context.Context

	ended atomic.Bool
	first atomic.Pointer[func()]
}

func (*lateContext) Done() <-chan struct{} { return make(chan struct{}) }

func (c *lateContext) Err() error {
	if c.ended.Load() {
		return context.Canceled
	}

	return nil
}

func (c *lateContext) AfterFunc(f func()) (stop func() bool) {
	c.first.CompareAndSwap(nil, &f)
	return func() bool { return true }
}

// A client that answers the close of a server that stops has not left, though its answer comes before the server has told
// the work of all connections.
func TestEndOfTheServerIsNotTheClients(t *testing.T) {
	t.Parallel()

	begun, cause := make(chan struct{}), make(chan error, 1)
	ctx := &lateContext{Context: t.Context()}
	c, over := serveWatched(ctx, t, wsio.Options{}, untilCanceled(begun, cause), nil)
	send(t, c, "work")
	<-begun
	ctx.ended.Store(true)

	go (*ctx.first.Load())()

	_, _, err := c.ReadMessage()
	require.True(t, websocket.IsCloseError(err, websocket.CloseServiceRestart), "%v", err)
	require.ErrorIs(t, <-cause, context.Canceled)
	closed(t, over)
}

// The connection of a client that sends requests and reads no replies ends, whichever goroutine blocks on
// writing the reply.
func TestClientThatReadsNothing(t *testing.T) {
	t.Parallel()
	// more than the kernel holds
	large := make([]byte, 16<<20)

	for name, h := range map[string]wsio.Handler{
		"a quick reply": func([]byte) wsio.Answer { return wsio.Answer{Reply: [][]byte{large}} },
		"a slow one": func([]byte) wsio.Answer {
			return wsio.Answer{Later: func(context.Context) wsio.Answer { return wsio.Answer{Reply: [][]byte{large, large}} }}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, over := serve(t, wsio.Options{PingEvery: time.Second}, h)
			send(t, c, "give")
			closed(t, over)
		})
	}
}

// A client may read a reply of many megabytes slowly, over several ping intervals, and send no pong then.
// As long as it reads some of the reply, the connection stays open, and the client gets the whole reply and
// the next one.
func TestLargeReplyMayBeReadSlowly(t *testing.T) {
	t.Parallel()

	const bounds = 3

	s := slow{every: 3 * time.Second, step: 256 << 10}
	c, _ := serve(t, wsio.Options{PingEvery: s.every}, s.answer)
	s.shrinkReceiveBuffer(t, c)
	send(t, c, "give")
	_, reply, err := c.NextReader()
	require.NoError(t, err)
	taken := s.readFor(t, reply, bounds)
	rest, err := io.Copy(io.Discard, reply)
	require.NoError(t, err)
	require.Positive(t, rest, "the reply was read before several ping intervals had passed")
	require.Equal(t, s.size(), taken+rest)
	send(t, c, "small")
	require.Equal(t, "small", read(t, c))
}

// The connection of a client that stops reading in the middle of a reply ends.
func TestClientThatStopsReadingAReply(t *testing.T) {
	t.Parallel()

	s := slow{every: 2 * time.Second, step: 256 << 10}
	c, over := serve(t, wsio.Options{PingEvery: s.every}, s.answer)
	s.shrinkReceiveBuffer(t, c)
	send(t, c, "give")
	_, reply, err := c.NextReader()
	require.NoError(t, err)
	s.readFor(t, reply, 1)
	closed(t, over)
}
