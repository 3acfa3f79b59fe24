package deadpathtest

import (
	"net"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Refusing returns an address that refuses every connection until the test ends. The port is bound without a listener, so that no other program
// gets it, as can happen with the port of a closed listener.
func Refusing(t testing.TB) string {
	t.Helper()
	address, _ := RefusingAtFirst(t)
	return address
}

// RefusingAtFirst returns an address that refuses every connection until listen is called. The test closes the listener.
func RefusingAtFirst(t testing.TB) (address string, listen func() net.Listener) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	socket := os.NewFile(uintptr(fd), "socket")
	t.Cleanup(func() { _ = socket.Close() })
	require.NoError(t, unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	bound, err := unix.Getsockname(fd)
	require.NoError(t, err)
	at, ok := bound.(*unix.SockaddrInet4)
	require.True(t, ok)
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(at.Port)), func() net.Listener {
		t.Helper()
		require.NoError(t, unix.Listen(fd, unix.SOMAXCONN))
		l, err := net.FileListener(socket)
		require.NoError(t, err)
		return l
	}
}
