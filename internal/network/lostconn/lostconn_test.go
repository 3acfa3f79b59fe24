package lostconn_test

import (
	"context"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/network/lostconn"
	"github.com/rolloutd/rolloutd/internal/network/lostconn/lostconntest"
)

// patience bounds the waits of the tests. silence is the timeout of the connections under test.
const (
	patience = 2 * time.Minute
	silence  = time.Second
)

// Both ends of a path that loses packets get an error: an end that waits for data, and an end whose data is
// not acknowledged.
func TestDeadPathFails(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		accepted bool
		send     string
	}{
		"dialed, waits":   {false, ""},
		"dialed, sends":   {false, "ping"},
		"accepted, waits": {true, ""},
		"accepted, sends": {true, "ping"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			link, end, far := connect(t)
			if c.accepted {
				end = far
			}

			n, err := link.Lose()
			require.NoError(t, err)
			require.Equal(t, 1, n)
			require.NoError(t, end.SetDeadline(time.Now().Add(patience)))

			if _, err = io.WriteString(end, c.send); err == nil {
				_, err = end.Read(make([]byte, 1))
			}

			require.ErrorIs(t, err, syscall.ETIMEDOUT)
		})
	}
}

// A peer may be silent for longer than the timeout, because its kernel answers the probes.
func TestSilentPeerIsNotDead(t *testing.T) {
	t.Parallel()
	_, near, far := connect(t)
	_, err := io.WriteString(near, "?")
	require.NoError(t, err)
	_, err = io.ReadFull(far, make([]byte, 1))
	require.NoError(t, err)
	time.Sleep(2 * silence)

	_, err = io.WriteString(far, "!")
	require.NoError(t, err)
	require.NoError(t, near.SetReadDeadline(time.Now().Add(patience)))
	_, err = io.ReadFull(near, make([]byte, 1))
	require.NoError(t, err)
}

// The connections of the roles have the documented timeout, on both sides.
func TestTimeoutOfRoles(t *testing.T) {
	t.Parallel()
	l, err := lostconn.Listener().Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)

	defer l.Close()

	near, err := lostconn.Dialer(patience).DialContext(t.Context(), "tcp", l.Addr().String())
	require.NoError(t, err)

	defer near.Close()

	far, err := l.Accept()
	require.NoError(t, err)

	defer far.Close()

	for end, c := range map[string]net.Conn{"dialed": near, "accepted": far} {
		require.Equal(
			t,
			int(lostconn.Timeout.Milliseconds()),
			option(t, c, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT),
			end,
		)
		require.Equal(t, 1, option(t, c, unix.SOL_SOCKET, unix.SO_KEEPALIVE), end)
		require.Equal(t, 15, option(t, c, unix.IPPROTO_TCP, unix.TCP_KEEPIDLE), end)
	}
}

// connect makes a connection over a link, with the short timeout on both sides.
func connect(t *testing.T) (link *lostconntest.Link, near, far net.Conn) {
	t.Helper()

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()

	l, err := lostconn.ListenerAfter(silence).Listen(ctx, "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	link = lostconntest.New(t, l.Addr().String())
	near, err = lostconn.DialerAfter(patience, silence).DialContext(ctx, "tcp", link.Address())
	require.NoError(t, err)
	t.Cleanup(func() { _ = near.Close() })

	far, err = l.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { _ = far.Close() })
	require.Eventually(t, func() bool { return link.Open() == 1 }, patience, time.Millisecond)

	return link, near, far
}

func option(t *testing.T, c net.Conn, level, name int) int {
	t.Helper()

	raw, err := c.(syscall.Conn).SyscallConn()
	require.NoError(t, err)

	var (
		value  int
		failed error
	)

	require.NoError(t, raw.Control(func(fd uintptr) { value, failed = unix.GetsockoptInt(int(fd), level, name) }))
	require.NoError(t, failed)

	return value
}
