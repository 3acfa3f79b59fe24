package upstream

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/network/egress"
)

// The policy checks the address that is dialed, not only the name, so nothing connects to the listener.
func TestResolvedAddressesAreChecked(t *testing.T) {
	t.Parallel()

	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)

	defer l.Close()

	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)

	for _, host := range []string{"localhost", "127.0.0.1", "::ffff:127.0.0.1", "0.0.0.0"} {
		_, err := egress.Policy{}.Dial(t.Context(), "tcp", net.JoinHostPort(host, port))
		require.True(t, fault.Is(err, fault.Invalid), "%s: %v", host, err)
	}

	allowed, err := egress.Parse([]string{"127.0.0.1:" + port})
	require.NoError(t, err)
	c, err := allowed.Dial(t.Context(), "tcp", l.Addr().String())
	require.NoError(t, err)
	require.NoError(t, c.Close())
}
