package listen_test

import (
	"errors"
	"net"
	"net/http"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/network/listen"
)

func limited(t *testing.T, limit int) *listen.Limited {
	t.Helper()

	l, err := listen.TCP("test", "127.0.0.1:0", "--port")
	require.NoError(t, err)

	out := listen.Limit(l, limit)

	t.Cleanup(func() { _ = out.Close() })

	return out
}

// accepted dials the listener and returns the accepted connection.
func accepted(t *testing.T, l net.Listener) net.Conn {
	t.Helper()

	client, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })

	c, err := l.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })

	return c
}

// held returns an accepted connection with a request in flight.
func held(t *testing.T, l net.Listener) net.Conn {
	t.Helper()
	c := accepted(t, l)
	listen.Serving(listen.ConnContext(t.Context(), c))

	return c
}

// At the limit the connection that has been idle for the longest time is closed. A connection whose client
// has shown a token is not closed, nor one with a request in flight.
func TestIdleConnectionsAreClosedAtTheLimit(t *testing.T) {
	t.Parallel()
	l := limited(t, 4)
	trusted, first, second := accepted(t, l), accepted(t, l), accepted(t, l)
	listen.Trust(listen.ConnContext(t.Context(), trusted))
	listen.ConnState(trusted, http.StateIdle)
	listen.Serving(listen.ConnContext(t.Context(), first))
	// now it has been idle for a shorter time than second
	listen.ConnState(first, http.StateIdle)

	working := held(t, l)
	ended := func(c net.Conn) bool {
		_, err := c.Write([]byte("x"))
		return errors.Is(err, net.ErrClosed)
	}

	require.False(t, over(t, held(t, l)))
	require.True(t, ended(second))
	require.False(t, ended(first))
	require.False(t, over(t, held(t, l)))
	require.True(t, ended(first))
	require.True(t, over(t, accepted(t, l)), "none is left that may be closed")
	require.False(t, ended(trusted))
	require.False(t, ended(working))
}

func over(t *testing.T, c net.Conn) bool { return listen.Over(listen.ConnContext(t.Context(), c)) }

func TestConnectionsOverTheLimitAreMarked(t *testing.T) {
	t.Parallel()
	l := limited(t, 2)
	first := held(t, l)
	require.False(t, over(t, first))
	require.False(t, over(t, held(t, l)))
	third := held(t, l)
	require.True(t, over(t, third))
	require.NoError(t, third.Close())
	// a second Close does not free another slot
	_ = third.Close()

	require.True(t, over(t, held(t, l)), "the first two are still there")
	require.NoError(t, first.Close())
	require.NoError(t, held(t, l).Close())
}

// The listener accepts at most the limit and the spare connections, and it can be closed while it waits for
// a free slot.
func TestConnectionsOverTheLimitAreBounded(t *testing.T) {
	t.Parallel()
	l := limited(t, 1)

	first := held(t, l)
	for range 64 {
		require.True(t, over(t, held(t, l)))
	}

	client, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)

	defer client.Close()

	next := make(chan error, 1)

	accept := func() {
		c, err := l.Accept()
		if err == nil {
			t.Cleanup(func() { _ = c.Close() })
		}

		next <- err
	}
	go accept()

	require.Empty(t, next)
	require.NoError(t, first.Close())
	require.NoError(t, <-next)

	go accept()

	require.NoError(t, l.Close())
	require.ErrorIs(t, <-next, net.ErrClosed)
}

// The kernel disconnects clients that read nothing (TCP_USER_TIMEOUT in tcp(7)); the test checks that the
// option is set.
func TestStalledConnectionsAreBroken(t *testing.T) {
	t.Parallel()
	raw, err := accepted(t, limited(t, 1)).(syscall.Conn).SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) {
		ms, err := unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)
		require.NoError(t, err)
		require.Equal(t, 60_000, ms)
	}))
}
