package wsio_test

import (
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/envserver/internal/wsio"
)

// slow is a client that takes a large reply a stretch at a time, twenty of them between two pings, and answers no ping.
type slow struct {
	every   time.Duration // between pings
	stretch int64         // bytes
}

// ticks is how many stretches are taken between two pings. Together they are far more than what a kernel must have got rid of
// before it tells a writer that there is room again.
const ticks = 20

// pieces of the reply, a megabyte each.
const pieces = 24

func (slow) size() int64 { return pieces << 20 }

// answer gives a large reply to "give", and else says the same again.
func (slow) answer(frame []byte) wsio.Answer {
	if string(frame) == "give" {
		return wsio.Answer{Reply: slices.Repeat([][]byte{make([]byte, 1<<20)}, pieces)}
	}
	return wsio.Answer{Reply: [][]byte{frame}}
}

// narrow has c's kernel hold little, so that what is not taken is noticed at the other end.
func (slow) narrow(t *testing.T, c *websocket.Conn) {
	t.Helper()
	tcp, _ := c.NetConn().(*net.TCPConn)
	require.NoError(t, tcp.SetReadBuffer(64<<10))
	c.SetPingHandler(func(string) error { return nil })
}

// take takes of the reply for so many times the time between two pings, and returns how many bytes that was.
func (s slow) take(t *testing.T, reply io.Reader, bounds int) (taken int64) {
	t.Helper()
	pace := time.NewTicker(s.every / ticks)
	defer pace.Stop()
	for range bounds * ticks {
		<-pace.C
		n, err := io.CopyN(io.Discard, reply, s.stretch)
		taken += n
		require.NoError(t, err, "after %d bytes", taken)
	}
	return taken
}
