package sandboxtest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
)

func serviceTests() map[string]func(*testing.T, Harness) {
	return map[string]func(*testing.T, Harness){
		"Carried":   serviceCarried,
		"NoService": serviceNone,
		"Frozen":    serviceFrozen,
		"Listeners": serviceListeners,
	}
}

// A port of one sandbox is that of another one: here the model's address, the only server that every sandbox has.
func serviceCarried(t *testing.T, h Harness) {
	from, to := h.place(t), h.place(t)

	g := from.serve(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "at "+r.URL.Path) })
	defer g.stop()

	ctx, cancel := context.WithCancel(t.Context())
	opened, done := make(chan struct{}), make(chan error, 1)

	go func() {
		done <- to.ServePort(ctx, 8080, func() { close(opened) }, func(ctx context.Context, c io.ReadWriteCloser) {
			service, err := from.Connect(ctx, modelPort)
			if err != nil {
				return
			}
			defer service.Close()

			go func() { _, _ = io.Copy(service, c) }()

			_, _ = io.Copy(c, service)
		})
	}()

	<-opened

	const get = `exec 3<>/dev/tcp/127.0.0.1/8080 && printf 'GET /health HTTP/1.0\r\n\r\n' >&3 && cat <&3`
	require.Contains(t, to.Bash(get).Stdout, "at /health")

	cancel()
	require.NoError(t, <-done)
}

func serviceNone(t *testing.T, h Harness) {
	p := h.place(t)
	_, err := p.Connect(t.Context(), 9)
	require.True(t, fault.Is(err, fault.Unavailable), "%v", err)

	err = p.ServePort(t.Context(), modelPort, func() {}, nil)
	require.True(t, fault.Is(err, fault.Conflict), "its own port: %v", err)
}

// Frozen processes are stopped, also those that have left their session or resume each other, and go on later. No tool
// call starts another.
func serviceFrozen(t *testing.T, h Harness) {
	p := h.place(t)
	st := p.StartBash("runs", "echo here; while :; do read -t 0.05 <> <(:); done")
	p.StartBash("detached", "setsid bash -c 'echo away; while :; do read -t 0.05 <> <(:); done' & wait")
	p.Says("runs", "here\n")
	p.Says("detached", "away\n")

	resumes := p.StartBash("resumes", fmt.Sprintf("echo on; while kill -CONT %d; do :; done", st.PID))
	p.Says("resumes", "on\n")

	for range 2 {
		require.NoError(t, p.Freeze(t.Context()))
		require.Equal(t, "T\nT\n", p.stateOf(resumes)+p.stateOf(st))
	}

	require.NoError(t, p.Thaw(t.Context()))
	p.Eventually(func() bool { return p.stateOf(st) != "T\n" }, "goes on")
}

// Sandboxd's own ports are none of the processes'.
func serviceListeners(t *testing.T, h Harness) {
	p := h.place(t)
	stop := p.online(echoLine(0))

	defer stop()

	p.StartBash("runs", "echo here; read < <(sleep 1000)")
	p.Says("runs", "here\n")

	found, err := p.Listeners(t.Context())
	require.NoError(t, err)
	require.Empty(t, found.Ports)
	require.Positive(t, found.Processes)
}
