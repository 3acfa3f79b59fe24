package sandboxtest

import (
	"bufio"
	"context"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
)

func networkTests() map[string]func(*testing.T, Harness) {
	return map[string]func(*testing.T, Harness){
		"Connections": networkConnections,
		"ClosedAgain": networkClosedAgain,
		"NeverOpened": networkNeverOpened,
		"Taken":       networkTaken,
		"Gone":        networkGone,
	}
}

// connect is a shell function that makes a connection to the network channel: line → whole raw answer.
const connect = `connect() { exec 3<>/dev/tcp/127.0.0.1/7001 && printf '%s\n' "$1" >&3 && cat <&3; }; `

// online serves connections until it is stopped.
func (p *Place) online(serve func(context.Context, io.ReadWriteCloser)) (stop func()) {
	p.t.Helper()
	ctx, cancel := context.WithCancel(p.t.Context())

	opened, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- p.Backend.ServeNetwork(ctx, p.ID(), func() { close(opened) }, serve) }()

	select {
	case <-opened:
	case err := <-done:
		cancel()
		require.NoError(p.t, err)
	}

	stop = sync.OnceFunc(func() { cancel(); require.NoError(p.t, <-done) })

	p.t.Cleanup(cancel)

	return stop
}

// echoLine answers with the first line it gets, and with so many bytes more.
func echoLine(more int) func(context.Context, io.ReadWriteCloser) {
	return func(_ context.Context, c io.ReadWriteCloser) {
		line, err := bufio.NewReader(c).ReadString('\n')
		if err == nil {
			// the process may be gone
			_, _ = io.WriteString(c, "got "+line+strings.Repeat("x", more))
		}
	}
}

// Bytes go both ways, on many connections at once.
func networkConnections(t *testing.T, h Harness) {
	p := h.place(t)

	stop := p.online(echoLine(1 << 20))
	defer stop()

	out := p.Bash(
		connect + `connect hello | head -c 10; for i in 1 2 3 4 5 6 7 8; do (connect $i | wc -c) & done; wait`,
	)
	require.True(t, strings.HasPrefix(out.Stdout, "got hello\n"), out.Stdout)
	require.Equal(t, 8, strings.Count(out.Stdout, "1048582"), out.Stdout)
}

// Connections end with the channel; a later channel serves again.
func networkClosedAgain(t *testing.T, h Harness) {
	p := h.place(t)
	here := make(chan struct{})
	stop := p.online(func(ctx context.Context, _ io.ReadWriteCloser) {
		close(here)
		<-ctx.Done()
	})
	p.StartBash("waits", connect+`connect hello; echo "ended: $?"`)
	<-here
	stop()
	require.Contains(t, p.End("waits").Stdout, "ended: ")

	stop = p.online(echoLine(0))
	defer stop()

	require.Equal(t, "got again\n", p.Bash(connect+`connect again`).Stdout)
}

// A sandbox whose network was never opened has nothing to connect to.
func networkNeverOpened(t *testing.T, h Harness) {
	p := h.place(t)
	require.Contains(t, p.Bash(connect+`connect hello`).Stderr, "refused")
}

// The network of a sandbox in which a process has its address is not opened.
func networkTaken(t *testing.T, h Harness) {
	p := h.place(t)
	ctx, cancel := context.WithCancel(t.Context())
	opened, done := make(chan struct{}), make(chan error, 1)

	go func() { done <- p.ServePort(ctx, 7001, func() { close(opened) }, nil) }()

	<-opened

	err := p.Backend.ServeNetwork(t.Context(), p.ID(), func() {}, nil)
	require.True(t, fault.Is(err, fault.Conflict), "%v", err)

	cancel()
	require.NoError(t, <-done)
}

func networkGone(t *testing.T, h Harness) {
	p := h.place(t)
	require.NoError(t, p.Backend.Destroy(t.Context(), p.ID()))
	err := p.Backend.ServeNetwork(t.Context(), p.ID(), func() {}, nil)
	require.True(t, fault.Is(err, fault.SandboxLost), "%v", err)
}
