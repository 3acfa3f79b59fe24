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

// slow is a client that reads a large reply in steps, twenty of them between two pings, and answers no ping.
type slow struct {
	// between pings
	every time.Duration

	// bytes
	step int64
}

// ticks is the number of steps between two pings. Together they are far more than the free space at which a
// kernel reports a full send buffer as writable again.
const ticks = 20

// pieces is the size of the reply in megabytes.
const pieces = 24

func (slow) size() int64 { return pieces << 20 }

// answer gives a large reply to "give", and echoes everything else.
func (slow) answer(frame []byte) wsio.Answer {
	if string(frame) == "give" {
		return wsio.Answer{Reply: slices.Repeat([][]byte{make([]byte, 1<<20)}, pieces)}
	}

	return wsio.Answer{Reply: [][]byte{frame}}
}

// shrinkReceiveBuffer shrinks the receive buffer of c, so that the server notices that the client does not read.
func (slow) shrinkReceiveBuffer(t *testing.T, c *websocket.Conn) {
	t.Helper()

	tcp, _ := c.NetConn().(*net.TCPConn)
	require.NoError(t, tcp.SetReadBuffer(64<<10))
	c.SetPingHandler(func(string) error { return nil })
}

// readFor reads the reply for the given number of ping intervals, and returns the number of bytes.
func (s slow) readFor(t *testing.T, reply io.Reader, bounds int) (taken int64) {
	t.Helper()

	pace := time.NewTicker(s.every / ticks)
	defer pace.Stop()

	for range bounds * ticks {
		<-pace.C

		n, err := io.CopyN(io.Discard, reply, s.step)
		taken += n
		require.NoError(t, err, "after %d bytes", taken)
	}

	return taken
}
