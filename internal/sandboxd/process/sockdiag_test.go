package process_test

import (
	"net"
	"net/netip"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/sandboxd/process"
)

// The kernel's socket diagnosis agrees with /proc/net, for clients with IPv4 and IPv6 sockets.
func TestSocketDiagnosisAgreesWithProc(t *testing.T) {
	t.Parallel()

	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)

	defer l.Close()

	for _, network := range []string{"tcp4", "tcp"} {
		c, err := net.Dial(network, l.Addr().String())
		require.NoError(t, err)

		defer c.Close()

		client, server := addrPort(c.LocalAddr()), addrPort(c.RemoteAddr())

		got, err := process.Connected(client, server)
		if err != nil {
			t.Skipf("this kernel has no socket diagnosis: %v", err)
		}

		want, err := process.ReadClient(client, server)
		require.NoError(t, err)
		require.NotZero(t, want)
		require.Equal(t, want, got)
	}

	port := addrPort(l.Addr()).Port()
	got, err := process.Listening(port)
	require.NoError(t, err)
	want, err := process.ReadListeners(port)
	require.NoError(t, err)
	require.NotEmpty(t, want)
	require.Subset(t, got, want)
}

// A listener on the port of the alleged client is not a connection, and neither is a closed one.
func TestSocketDiagnosisOfWhatIsNotConnected(t *testing.T) {
	t.Parallel()

	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)

	listener := addrPort(l.Addr())

	inode, err := process.Connected(listener, netip.MustParseAddrPort("127.0.0.1:1"))
	if err != nil {
		t.Skipf("this kernel has no socket diagnosis: %v", err)
	}

	require.Zero(t, inode)
	require.NoError(t, l.Close())

	inode, err = process.Connected(listener, netip.MustParseAddrPort("127.0.0.1:1"))
	require.NoError(t, err)
	require.Zero(t, inode)
}

// A socket is found under its last descriptor, under another one if that descriptor is a different file
// now, and not at all after it is closed.
func TestSocketThatMoves(t *testing.T) {
	t.Parallel()

	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	inodes, err := process.ReadListeners(addrPort(l.Addr()).Port())
	require.NoError(t, err)
	require.Len(t, inodes, 1)

	find := func(first string) (string, bool) { return process.FindSocket(os.Getpid(), inodes[0], first) }
	where, found := find("")
	require.True(t, found)
	again, found := find(where)
	require.True(t, found)
	require.Equal(t, where, again)

	elsewhere, found := find("0")
	require.True(t, found)
	require.Equal(t, where, elsewhere)
	require.NoError(t, l.Close())

	_, found = find(where)
	require.False(t, found)
}

func addrPort(a net.Addr) netip.AddrPort { return a.(*net.TCPAddr).AddrPort() }
