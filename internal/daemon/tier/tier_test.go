package tier_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/daemon/tier"
)

// callLog records the calls of tiers in order.
type callLog struct {
	mu    sync.Mutex
	lines []string
}

func (d *callLog) add(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()

	d.lines = append(d.lines, line)
}

func (d *callLog) tier(name string, done <-chan error) tier.Tier {
	return tier.Tier{Name: name, Start: func(_ context.Context, parts *tier.Parts) error {
		d.add("start " + name)
		parts.Add(tier.Part{Done: done, Stop: func(context.Context) error { d.add("stop " + name); return nil }})

		return nil
	}}
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func TestTiersStopInReverse(t *testing.T) {
	t.Parallel()

	var d callLog

	ctx, cancel := context.WithCancel(t.Context())
	err := tier.Run(ctx, quiet(), []tier.Tier{d.tier("a", nil), d.tier("b", nil)}, func() { d.add("ready"); cancel() })
	require.NoError(t, err)
	require.Equal(t, []string{"start a", "start b", "ready", "stop b", "stop a"}, d.lines)
}

func TestTierThatDoesNotStartRollsBackTheOthers(t *testing.T) {
	t.Parallel()

	var d callLog

	broken := tier.Tier{Name: "b", Start: func(_ context.Context, parts *tier.Parts) error {
		parts.OnClose(func() error { d.add("close b1"); return nil })
		parts.OnClose(func() error { d.add("close b2"); return errors.New("no luck either") })

		return errors.New("no luck")
	}}
	err := tier.Run(
		t.Context(),
		quiet(),
		[]tier.Tier{d.tier("a", nil), broken, d.tier("c", nil)},
		func() { d.add("ready") },
	)
	require.EqualError(t, err, "start b: no luck\nstop b: no luck either")
	require.Equal(t, []string{"start a", "close b2", "close b1", "stop a"}, d.lines)
}

// Run reports the first cause once and stops the other tiers.
func TestFailedTierEndsTheProcessWithItsError(t *testing.T) {
	t.Parallel()

	var d callLog

	died := make(chan error, 1)
	err := tier.Run(
		t.Context(),
		quiet(),
		[]tier.Tier{d.tier("a", nil), d.tier("b", died)},
		func() { died <- errors.New("out of luck") },
	)
	require.EqualError(t, err, "b ended by itself: out of luck")
	require.Equal(t, []string{"start a", "start b", "stop b", "stop a"}, d.lines)
}

// A listener is closed if its server did not start, and closing it after its server is no error.
func TestListenersAreClosed(t *testing.T) {
	t.Parallel()

	for name, serve := range map[string]bool{"with a server": true, "without": false} {
		l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
		require.NoError(t, err, name)
		// else Accept waits for ever on an open one
		require.NoError(t, l.SetDeadline(time.Now().Add(time.Minute)))

		var parts tier.Parts
		parts.AddListener(l)

		if serve {
			parts.Add(tier.ServeHTTP(l, http.NotFoundHandler()))
		}

		require.NoError(t, parts.Stop(t.Context()), name)

		_, err = l.Accept()
		require.ErrorIs(t, err, net.ErrClosed, name)
	}
}

func TestInterruptedStartIsNoError(t *testing.T) {
	t.Parallel()

	var d callLog

	ctx, cancel := context.WithCancel(t.Context())
	slow := tier.Tier{Name: "slow", Start: func(ctx context.Context, _ *tier.Parts) error {
		cancel()
		return ctx.Err()
	}}
	require.NoError(t, tier.Run(ctx, quiet(), []tier.Tier{d.tier("a", nil), slow}, func() { d.add("ready") }))
	require.Equal(t, []string{"start a", "stop a"}, d.lines)
}

// A tier that exceeds its budget is reported and does not keep others from stopping.
func TestSlowStopIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var d callLog

		ctx, cancel := context.WithCancel(t.Context())
		slow := tier.Tier{Name: "slow", Budget: time.Minute, Start: func(_ context.Context, parts *tier.Parts) error {
			parts.OnStop(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
			return nil
		}}
		begin := time.Now()
		err := tier.Run(ctx, quiet(), []tier.Tier{d.tier("a", nil), slow}, cancel)
		require.ErrorContains(t, err, "stop slow")
		require.Equal(t, time.Minute, time.Since(begin))
		require.Equal(t, []string{"start a", "stop a"}, d.lines)
	})
}

// piped is a listener with one connection.
type piped struct {
	conn   chan net.Conn
	closed chan struct{}
	close  func()
}

func newPiped() (l piped, client net.Conn) {
	client, served := net.Pipe()
	l = piped{conn: make(chan net.Conn, 1), closed: make(chan struct{})}

	l.close = sync.OnceFunc(func() { close(l.closed) })
	l.conn <- served

	return l, client
}

func (l piped) Accept() (net.Conn, error) {
	select {
	case c := <-l.conn:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l piped) Close() error   { l.close(); return nil }
func (l piped) Addr() net.Addr { return &net.TCPAddr{} }

// A connection without a request is no reason to report that the server does not stop.
func TestUnusedConnectionsDoNotHoldUpTheStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, client := newPiped()
		server := tier.Tier{Name: "server", Start: func(_ context.Context, parts *tier.Parts) error {
			parts.Add(tier.ServeHTTP(l, http.NotFoundHandler()))
			return nil
		}}

		ctx, cancel := context.WithCancel(t.Context())
		require.NoError(t, tier.Run(ctx, quiet(), []tier.Tier{server}, func() {
			synctest.Wait()
			cancel()
		}))

		_, err := client.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF)
	})
}
