package modelchannel

import (
	"io"
	"log/slog"
	"net"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A body that does not arrive ends its call, and gives back the room that it was to take.
func TestABodyThatDoesNotArrive(t *testing.T) {
	t.Parallel()
	m := New(slog.New(slog.DiscardHandler), func(_, _ netip.AddrPort) string { return "" })
	m.bodyTime = 10 * time.Millisecond
	server := httptest.NewServer(m)
	t.Cleanup(server.Close)
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_, err = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 60000000\r\n\r\nfirst")
	require.NoError(t, err)
	answer, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Empty(t, answer)
	require.True(t, m.held.TryAcquire(maxHeldBodies))
}
