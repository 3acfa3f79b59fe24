package wsio_test

import (
	"context"
	"testing"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/envserver/internal/wsio"
)

// longHandler answers "long" when it is released, and everything else at once. It sends the causes with
// which its context ended to ended.
type longHandler struct {
	release chan struct{}
	ended   chan error
	named   bool
}

func (l longHandler) answer(frame []byte) wsio.Answer {
	said := append([]byte("re "), frame...)
	if string(frame) != "long" {
		return wsio.Answer{Reply: [][]byte{said}}
	}

	return wsio.Answer{Named: l.named, Later: func(ctx context.Context) wsio.Answer {
		select {
		case <-ctx.Done():
			l.ended <- context.Cause(ctx)
		case <-l.release:
		}

		return wsio.Answer{Reply: [][]byte{said}}
	}}
}

// A client that sends its next request while a request is unanswered has given up on that request and never
// gets its late answer.
func TestClientThatGaveUp(t *testing.T) {
	t.Parallel()

	gaveUp := context.Canceled
	l := longHandler{release: make(chan struct{}), ended: make(chan error, 1)}

	c, _ := serve(t, wsio.Options{GiveUpAfter: -1, ErrGaveUp: gaveUp}, l.answer)
	for range 2 {
		send(t, c, "long")
		send(t, c, "next")
		require.Equal(t, "re next", read(t, c))
		require.Equal(t, gaveUp, <-l.ended)
		send(t, c, "last")
		require.Equal(t, "re last", read(t, c))
	}
}

// A client that gives up on a queued request never gets its answer either.
func TestClientThatGaveUpOnAQueuedRequest(t *testing.T) {
	t.Parallel()

	gaveUp := context.Canceled
	l := longHandler{ended: make(chan error, 1)}
	stuck := make(chan struct{})
	c, _ := serve(t, wsio.Options{GiveUpAfter: -1, ErrGaveUp: gaveUp}, func(frame []byte) wsio.Answer {
		if string(frame) != "stuck" {
			return l.answer(frame)
		}
		// does not end with its context
		return wsio.Answer{Later: func(context.Context) wsio.Answer {
			<-stuck
			return wsio.Answer{Reply: [][]byte{[]byte("re stuck")}}
		}}
	})
	// the server has read every request before it
	c.SetPongHandler(func(string) error { close(stuck); return nil })

	for _, frame := range []string{"stuck", "long", "quick", "next"} {
		send(t, c, frame)
	}

	require.NoError(t, c.WriteMessage(websocket.PingMessage, nil))
	require.Equal(t, "re next", read(t, c))
	require.Equal(t, gaveUp, <-l.ended)
}

// A client that sends ahead waits for every answer, in order, for any time.
func TestPipeliningClientGetsEveryAnswer(t *testing.T) {
	t.Parallel()

	l := longHandler{release: make(chan struct{}), ended: make(chan error, 1)}
	c, _ := serve(t, wsio.Options{}, l.answer)
	send(t, c, "long")
	send(t, c, "next")
	send(t, c, "last")
	close(l.release)

	for _, want := range []string{"re long", "re next", "re last"} {
		require.Equal(t, want, read(t, c))
	}
}

// If replies name their requests, the next request is answered at once, and the late reply is sent when it is ready.
func TestNamedReplyMayComeLate(t *testing.T) {
	t.Parallel()

	l := longHandler{release: make(chan struct{}), ended: make(chan error, 1), named: true}
	c, over := serve(t, wsio.Options{GiveUpAfter: -1}, l.answer)
	send(t, c, "long")
	send(t, c, "next")
	require.Equal(t, "re next", read(t, c))
	send(t, c, "last")
	require.Equal(t, "re last", read(t, c))

	l.release <- struct{}{}

	require.Equal(t, "re long", read(t, c))
	send(t, c, "long")
	require.NoError(t, c.Close())
	require.Equal(t, errGone, <-l.ended)
	closed(t, over)
}
