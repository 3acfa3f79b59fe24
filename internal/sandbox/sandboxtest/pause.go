package sandboxtest

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

func pauseTests() map[string]func(*testing.T, Harness) {
	return map[string]func(*testing.T, Harness){
		"UntilBytesCome":     pauseUntilBytesCome,
		"WhileAsked":         pauseWhileAsked,
		"NotWithAChild":      pauseNotWithAChild,
		"KilledWhileStopped": pauseKilled,
	}
}

// waiter is a script that makes a model call without a child, and writes those lines of the answer that
// begin with "data:".
const waiter = `exec 3<>/dev/tcp/127.0.0.1/7000; printf 'GET /%s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n' $name >&3
	while read -r line <&3; do case $line in data:*) echo "$line";; esac; done`

// startWaiter starts a process that is stopped while it waits for its model. first are commands that it runs before.
func (p *Place) startWaiter(name, first string) wire.Status {
	p.t.Helper()
	st, err := p.Start(p.t.Context(), name, wire.Process{
		Argv: []string{"bash", "-c", first + "name=" + name + "; " + waiter}, PauseAfterMillis: 200,
	})
	require.NoError(p.t, err)

	return st
}

func (p *Place) paused(name string) bool {
	p.t.Helper()
	st, err := p.Status(p.t.Context(), name)
	require.NoError(p.t, err)

	return st.Paused
}

func (p *Place) eventuallyPaused(name string) {
	p.t.Helper()
	p.Eventually(func() bool { return p.paused(name) }, name+" is stopped")
}

// stateOf is the state of a process as /proc has it: T for one that is stopped.
func (p *Place) stateOf(st wire.Status) string {
	p.t.Helper()
	return p.Bash(fmt.Sprintf("read -r _ _ state _ < /proc/%d/stat; echo $state", st.PID)).Stdout
}

// A process is stopped while it waits for its model, and runs whenever a piece of the answer comes. One
// that is not to be stopped is not.
func pauseUntilBytesCome(t *testing.T, h Harness) {
	p := h.place(t)
	plain, pieces, release := make(chan struct{}), make(chan string), make(chan struct{})
	g := p.serve(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/plain" {
			close(plain)
			<-release

			return
		}

		for piece := range pieces {
			_, _ = io.WriteString(w, "data: "+piece+"\n")
			_ = http.NewResponseController(w).Flush()
		}
	})
	p.StartBash("plain", "name=plain; "+waiter)
	<-plain

	agent := p.startWaiter("agent", "")
	p.eventuallyPaused("agent")
	// a process that is not on a CPU stops when it next gets one
	p.Eventually(func() bool { return p.stateOf(agent) == "T\n" }, "the kernel has stopped it")
	require.False(t, p.paused("plain"))

	pieces <- "one"

	p.Says("agent", "data: one\n")
	p.eventuallyPaused("agent")

	pieces <- "two"

	p.Says("agent", "data: one\ndata: two\n")
	p.eventuallyPaused("agent")
	close(pieces)
	require.Zero(t, p.End("agent").ExitCode)
	close(release)
	p.End("plain")
	g.stop()
}

// A stopped process runs while a request to one of its ports waits for an answer. A stream of events is
// none that is waited for.
func pauseWhileAsked(t *testing.T, h Harness) {
	p := h.place(t)
	answer := make(chan struct{})

	p.serve(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/question":
			<-answer
		case "/events":
			w.Header().Set("Content-Type", "text/event-stream")
			_ = http.NewResponseController(w).Flush()

			<-r.Context().Done()
		default:
			<-r.Context().Done()
		}
	})
	agent := p.startWaiter("agent", "")
	p.eventuallyPaused("agent")

	asked := make(chan error, 1)

	go func() {
		res, err := p.Client(modelPort).Get("http://sandbox/question")
		if err == nil {
			err = res.Body.Close()
		}

		asked <- err
	}()

	p.Eventually(func() bool { return !p.paused("agent") }, "it runs")
	require.NotEqual(t, "T\n", p.stateOf(agent))
	close(answer)
	require.NoError(t, <-asked)
	p.eventuallyPaused("agent")

	res, err := p.Client(modelPort).Get("http://sandbox/events")
	require.NoError(t, err)

	defer res.Body.Close()

	p.eventuallyPaused("agent")
}

// A process with a child is not stopped: the child may wait for it.
func pauseNotWithAChild(t *testing.T, h Harness) {
	p := h.place(t)
	p.serve(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	p.startWaiter("agent", "sleep 2 & ")
	p.eventuallyPaused("agent")
	out := p.Bash(
		`for f in /proc/[0-9]*/stat; do { read -r _ name state _ < $f; } 2>/dev/null && echo "$name$state"; done`,
	).Stdout
	require.NotContains(t, strings.ReplaceAll(out, "(sleep)Z", ""), "(sleep)")
}

func pauseKilled(t *testing.T, h Harness) {
	p := h.place(t)
	p.serve(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	p.startWaiter("agent", "")
	p.eventuallyPaused("agent")
	require.NoError(t, p.Kill(t.Context(), "agent"))
	st, err := p.Status(t.Context(), "agent")
	require.NoError(t, err)
	require.Equal(t, 137, st.ExitCode)
	require.False(t, st.Running)
	require.False(t, st.Paused)
	require.Equal(t, "0\n", p.Bash(count).Stdout)
}
