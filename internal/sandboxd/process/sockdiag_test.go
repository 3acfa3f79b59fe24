package process_test

import (
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/sandboxd/process"
)

// The kernel's socket diagnosis answers what /proc/net says, for clients with sockets of IPv4 and of IPv6.
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

// A client that listens on the port it is said to have connected from is not a connection, nor is one that is gone.
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

func addrPort(a net.Addr) netip.AddrPort { return a.(*net.TCPAddr).AddrPort() }
