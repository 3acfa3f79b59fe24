package e2b

import (
	"context"
	"encoding/binary"
	"net"
	"time"

	"github.com/rolloutd/rolloutd/internal/driver/e2b/envd"
	"github.com/rolloutd/rolloutd/internal/sandboxd/attach"
)

// Sizes of sent data, in bytes. Writes during a request are combined in the next one.
const (
	pieceSize = 32 << 10

	// pieces
	maxQueue = 16
	maxInput = 512 << 10
)

// sendTime bounds one request with input.
const sendTime = time.Minute

// carrier moves the bytes of a connection: writes go to stdin in frames, and reads come from stdout.
type carrier struct {
	envd   *envd.Client
	pid    int
	stream eventStream

	// the other end of the connection
	inner net.Conn
	queue chan []byte

	// ends the stream
	cancel context.CancelFunc
}

// newConn returns the connection. Its goroutines end when it is closed or the stream ends.
func newConn(client *envd.Client, pid int, stream eventStream, first []byte, cancel context.CancelFunc) net.Conn {
	outer, inner := net.Pipe()
	c := &carrier{
		envd:   client,
		pid:    pid,
		stream: stream,
		inner:  inner,
		queue:  make(chan []byte, maxQueue),
		cancel: cancel,
	}
	// closed when nothing more is sent
	done := make(chan struct{})

	go c.receive(first)
	go c.collect(done)
	go c.send(done)

	return outer
}

// receive passes on output until the stream ends.
func (c *carrier) receive(first []byte) {
	defer c.inner.Close()
	defer c.cancel()

	if len(first) > 0 {
		if _, err := c.inner.Write(first); err != nil {
			return
		}
	}

	for c.stream.Receive() {
		e := c.stream.Msg().Event
		if e.End != nil {
			return
		}

		if e.Data == nil || len(e.Data.Stdout) == 0 {
			continue
		}

		if _, err := c.inner.Write(e.Data.Stdout); err != nil {
			return
		}
	}
}

// collect queues writes until the connection is closed.
func (c *carrier) collect(done <-chan struct{}) {
	defer close(c.queue)

	piece := make([]byte, pieceSize)
	for {
		n, err := c.inner.Read(piece)
		if n > 0 {
			select {
			case c.queue <- append([]byte(nil), piece[:n]...):
			case <-done:
				return
			}
		}

		if err != nil {
			return
		}
	}
}

// send sends the queue, keep-alive frames, and the end frame.
func (c *carrier) send(done chan<- struct{}) {
	defer close(done)
	defer c.cancel()
	defer c.inner.Close()

	signs := time.NewTicker(lifeSign)
	defer signs.Stop()

	for {
		var data []byte

		select {
		case piece, open := <-c.queue:
			if !open {
				// if it is lost, the process ends after a time without frames
				_ = c.input(binary.BigEndian.AppendUint32(nil, attach.EndFrame))
				return
			}

			data = c.more(piece)
		case <-signs.C:
		}

		if c.input(attach.Frame(data)) != nil {
			return
		}
	}
}

// more appends queued pieces to a piece.
func (c *carrier) more(data []byte) []byte {
	for len(data) < maxInput {
		select {
		case piece, open := <-c.queue:
			if !open {
				return data
			}

			data = append(data, piece...)
		default:
			return data
		}
	}

	return data
}

func (c *carrier) input(data []byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), sendTime)
	defer cancel()

	return c.envd.SendInput(ctx, c.pid, data)
}
