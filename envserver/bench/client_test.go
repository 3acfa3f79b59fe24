package bench_test

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"
)

func (s *server) dial(t *testing.T) *websocket.Conn {
	d := websocket.Dialer{HandshakeTimeout: patience, ReadBufferSize: 512, WriteBufferSize: 512}
	c, resp, err := d.DialContext(t.Context(), "ws://"+s.address+"/ws", nil)
	require.NoError(t, err)

	_ = resp.Body.Close()

	return c
}

func ask(c *websocket.Conn, frame string, times int) error {
	for range times {
		if err := c.WriteMessage(websocket.TextMessage, []byte(frame)); err != nil {
			return err
		}

		_, reply, err := c.ReadMessage()
		if err != nil {
			return err
		}

		if strings.Contains(string(reply[:min(len(reply), 40)]), `"error"`) {
			return errors.New(string(reply))
		}
	}

	return nil
}

// idle returns how much resident memory the server uses for each of n idle sessions, in bytes: fresh after
// the connection, used after one step in each session.
func (s *server) idle(t *testing.T, n int) (fresh, used float64) {
	before := s.memory(t)

	held := make([]*websocket.Conn, n)
	for i := range held {
		held[i] = s.dial(t)
	}
	// the server has accepted all connections
	require.NoError(t, ask(held[n-1], state, 1))

	fresh = float64(s.memory(t)-before) / float64(n)
	for _, c := range held {
		require.NoError(t, ask(c, state, 1))
	}

	used = float64(s.memory(t)-before) / float64(n)

	for _, c := range held {
		_ = c.NetConn().Close()
	}

	return fresh, used
}

// drop opens n connections, abandons each in one of four ways, and waits until the server has no sessions.
func (s *server) drop(t *testing.T, n int) {
	var silent []*websocket.Conn

	for i := range n {
		c := s.dial(t)

		switch i % 4 {
		case 0: // the kernel closes the connection, without a WebSocket close frame
		case 1: // reset
			require.NoError(t, c.NetConn().(*net.TCPConn).SetLinger(0))
		case 2: // in the middle of a frame
			_, err := c.NetConn().Write([]byte{0x81, 0xfe})
			require.NoError(t, err)
		case 3: // half-open: the client neither closes the connection nor sends anything
			silent = append(silent, c)
			continue
		}

		require.NoError(t, c.NetConn().Close())
	}

	require.Eventually(t, func() bool { return s.insides(t).Sessions == 0 }, patience, 100*time.Millisecond,
		fmt.Sprintf("%d sessions left", s.insides(t).Sessions))

	for _, c := range silent {
		_ = c.NetConn().Close()
	}
}
