package modelchannel

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A body that does not arrive in time ends its call and releases the memory reserved for it.
func TestLateBodyEndsItsCall(t *testing.T) {
	t.Parallel()

	m := New(slog.New(slog.DiscardHandler), &counted{})
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
	require.True(t, m.bodyBytes.TryAcquire(maxHeldBodies))
}

// Calls beyond the limit wait until a call in flight ends.
func TestConcurrentCallsAreBounded(t *testing.T) {
	t.Parallel()

	var connected atomic.Int64

	callers := &counted{}
	m := New(slog.New(slog.DiscardHandler), callers)
	server := httptest.NewUnstartedServer(m)
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		// the request's header has arrived
		if s == http.StateActive {
			connected.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)

	var conns []net.Conn

	for range maxCalls + 6 {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })

		_, err = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx")
		require.NoError(t, err)

		conns = append(conns, conn)
	}

	require.Eventually(
		t,
		func() bool { return connected.Load() == maxCalls+6 && callers.begun.Load() >= maxCalls },
		5*time.Minute,
		time.Millisecond,
	)
	require.EqualValues(t, maxCalls, callers.begun.Load())

	for _, conn := range conns {
		require.NoError(t, conn.Close())
	}

	require.Eventually(t, func() bool { return callers.begun.Load() > maxCalls }, 5*time.Minute, time.Millisecond)
}

// counted are callers without a name. They count the calls.
type counted struct{ begun atomic.Int64 }

func (c *counted) Origin(_, _ netip.AddrPort) string { c.begun.Add(1); return "" }

func (c *counted) Replied(string) {}

func (c *counted) Calls(string) (carry func(bool), end func()) { return func(bool) {}, func() {} }
