package lostconntest

import (
	"net"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Refusing returns an address that refuses every connection until the test ends. The port is bound without
// a listener, so that no other program gets it, as can happen with the port of a closed listener.
func Refusing(t testing.TB) string {
	t.Helper()
	address, _ := RefusingAtFirst(t)

	return address
}

// RefusingAtFirst returns an address that refuses every connection while there is no open listener of listen.
func RefusingAtFirst(t testing.TB) (address string, listen func() net.Listener) {
	t.Helper()

	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Close(fd) })

	// Listeners, which have this option too, may share the port.
	require.NoError(t, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1))
	require.NoError(t, unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	bound, err := unix.Getsockname(fd)
	require.NoError(t, err)

	at, ok := bound.(*unix.SockaddrInet4)
	require.True(t, ok)

	address = net.JoinHostPort("127.0.0.1", strconv.Itoa(at.Port))

	return address, func() net.Listener {
		t.Helper()

		l, err := net.Listen("tcp", address)
		require.NoError(t, err)

		return l
	}
}
