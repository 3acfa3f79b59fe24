package gateway_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/gateway"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
	"github.com/rolloutd/rolloutd/internal/gateway/upstream/limits"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
	"github.com/rolloutd/rolloutd/internal/seal"
)

const title = `{"messages":[{"role":"system","content":"You are a title generator."}]}`

// waitUntilHeld waits until the route holds calls back and has held them for at least d.
func (h *host) waitUntilHeld(t *testing.T, d time.Duration) {
	t.Helper()
	require.Eventually(t, func() bool {
		s := h.status(t, "r1.1")
		return s.Holding && s.Held >= d
	}, patience, pollStep)
}

// The time of a pause counts as held during and after the pause, once for concurrent calls, and only for
// the agent's own calls.
func TestHeldWhilePaused(t *testing.T) {
	t.Parallel()
	h, e := newHost(t), newEngine(t, says(goodReply))
	r := h.route(e.URL)
	r.Model.Endpoint, r.Origin = "vllm", "agent.1"
	url := h.open(t, r)
	own := []string{wire.OriginHeader, "agent.1"}
	require.Equal(t, 200, send(t.Context(), url, "", streamed, own...).status)
	pause, resume := h.pauses(t)
	pause()

	others := []<-chan reply{
		startSend(t, url, "", streamed, wire.OriginHeader, "shell"),
		startSend(t, url, "", title, own...),
	}
	h.queued(t, "vllm", 2)
	time.Sleep(300 * time.Millisecond)

	s := h.status(t, r.ID)
	require.False(t, s.Holding)
	require.Zero(t, s.Held, "nothing that the agent waits for")

	began := time.Now()

	calls := append(
		others,
		startSend(t, url, "", streamed, own...),
		startSend(t, url, "", streamed, own...),
		startSend(t, url, "", streamed, own...),
	)
	h.waitUntilHeld(t, 500*time.Millisecond)
	resume()

	for _, call := range calls {
		require.Equal(t, 200, await(t, call).status)
	}

	s = h.status(t, r.ID)
	require.False(t, s.Holding)
	require.GreaterOrEqual(t, s.Held, 500*time.Millisecond)
	require.LessOrEqual(t, s.Held, time.Since(began))

	before := s.Held
	// while the agent makes no call
	pause()
	time.Sleep(300 * time.Millisecond)
	resume()
	require.Equal(t, 200, send(t.Context(), url, "", streamed, own...).status)
	require.Equal(t, before, h.status(t, r.ID).Held)
}

// The time that a drain costs a call counts as held: the time of the upstream request that the drain ended,
// and the pause.
func TestHeldByADrain(t *testing.T) {
	t.Parallel()

	hang := newHanging(halfReply(), "")
	h, e := newHost(t), newEngine(t, hang.serve, says(goodReply))
	r := h.route(e.URL)
	r.Model.Endpoint = "vllm"
	got := startSend(t, h.open(t, r), "", streamed)
	await(t, hang.begun)
	time.Sleep(500 * time.Millisecond)
	require.Zero(t, h.status(t, r.ID).Held, "the endpoint works on it")
	_, err := h.trainer.Drain(t.Context(), "vllm", time.Hour, time.Millisecond, true)
	require.NoError(t, err)
	h.waitUntilHeld(t, 500*time.Millisecond)
	_, err = h.trainer.Resume(t.Context(), "vllm", "")
	require.NoError(t, err)
	require.Equal(t, goodReply, await(t, got).body)
}

// The time of failed upstream requests up to the next one counts as held. Waiting for other calls and a
// hanging call do not count, because the agent decides how many calls it makes.
func TestHeldByAnEndpointThatFails(t *testing.T) {
	t.Parallel()

	hang := newHanging("", goodReply)
	h := newHost(
		t,
		func(o *gateway.Options) { o.Bounds = func(string) limits.Bounds { return limits.Bounds{Calls: 1} } },
	)
	e := newEngine(t, answers(503, "{}", "Retry-After-Ms", "500"), says(goodReply), hang.serve, says(goodReply))
	r := h.route(e.URL)
	url := h.open(t, r)
	require.Equal(t, 200, send(t.Context(), url, "", streamed).status)
	held := h.status(t, r.ID).Held
	require.GreaterOrEqual(t, held, 500*time.Millisecond)

	calls := []<-chan reply{startSend(t, url, "", streamed)}
	await(t, hang.begun)
	calls = append(calls, startSend(t, url, "", streamed))
	h.queued(t, e.Listener.Addr().String(), 1)
	time.Sleep(300 * time.Millisecond)
	require.False(t, h.status(t, r.ID).Holding)
	close(hang.release)

	for _, call := range calls {
		require.Equal(t, 200, await(t, call).status)
	}

	require.Equal(t, held, h.status(t, r.ID).Held)
}

// gatewayProcess is a gateway in its own process, with a route that has had one call.
type gatewayProcess struct {
	*process
	dir   string
	key   seal.Key
	route string

	// of the model channel
	url string

	// before the first call
	began time.Time
}

func startGateway(t *testing.T, steps ...http.HandlerFunc) *gatewayProcess {
	t.Helper()
	m := &gatewayProcess{dir: t.TempDir(), route: "r1.1"}

	var err error

	m.key, err = seal.LoadOrCreate(m.dir + "/key")
	require.NoError(t, err)
	m.process = startProcess(t, m.dir)
	t.Cleanup(func() { m.kill() })
	e := newEngine(t, append([]http.HandlerFunc{says(goodReply)}, steps...)...)
	require.NoError(t, gatewayapi.NewClient(m.admin, m.key).Open(t.Context(), (&host{key: m.key}).route(e.URL)))
	m.url, m.began = m.read(t, m.route), time.Now()
	require.Equal(t, 200, send(t.Context(), m.url, "a", streamed).status)

	return m
}

func (m *gatewayProcess) status(t *testing.T) gatewayapi.RouteStatus {
	t.Helper()
	s, err := gatewayapi.NewClient(m.admin, m.key).Status(t.Context(), m.route)
	require.NoError(t, err)

	return s
}

// restart kills the gateway and starts it again after the given time.
func (m *gatewayProcess) restart(t *testing.T, after time.Duration) {
	t.Helper()
	m.kill()
	time.Sleep(after)

	m.process = startProcess(t, m.dir)
}

// marked waits until the gateway has saved the given number of open calls.
func (m *gatewayProcess) marked(t *testing.T, calls int) {
	t.Helper()

	from := time.Now()

	require.Eventually(t, func() bool {
		noted, err := gateway.LoadHeldMark(filepath.Join(m.dir, "gateway"))

		n := 0
		for _, r := range noted.Routes {
			n += len(r.Calls)
		}

		return err == nil && noted.At.After(from) && n == calls
	}, patience, pollStep)
}

// When a gateway is killed, the held time includes the time for which it held calls back, the lost work of
// open calls, and the time until the restart, also after repeated kills.
func TestHeldByAGatewayThatDies(t *testing.T) {
	t.Parallel()

	const away = time.Second

	for name, c := range map[string]struct {
		// nil: no call is in progress
		step  http.HandlerFunc
		holds bool
	}{
		"calls are held back": {answers(503, "{}", "Retry-After", "60"), true},
		"a call is under way": {newHanging(halfReply(), "").serve, false},
		"none is":             {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := startGateway(t, c.step)
			calls, least := 0, away

			if c.step != nil {
				_ = startSend(t, m.url, "b", streamed)
				require.Eventually(t, func() bool {
					s := m.status(t)
					return s.InFlight == 1 && s.Holding == c.holds
				}, patience, pollStep)
				time.Sleep(away)
				calls, least = 1, 2*away
			}

			m.marked(t, calls)

			for n := range 2 {
				m.restart(t, away)
				s := m.status(t)
				require.GreaterOrEqual(t, s.Held, least+time.Duration(n)*away)
				require.Less(t, s.Held, time.Since(m.began))
			}
		})
	}
}

// The time for which the gateway's machine is suspended counts as held, even if the gateway is killed afterwards.
func TestHeldByASuspendedGateway(t *testing.T) {
	t.Parallel()

	const still = 2 * time.Second

	m := startGateway(t)
	m.marked(t, 0)
	require.NoError(t, m.cmd.Process.Signal(syscall.SIGSTOP))
	require.Eventually(t, func() bool { return stopped(m.cmd.Process.Pid) }, patience, pollStep)
	time.Sleep(still)
	require.NoError(t, m.cmd.Process.Signal(syscall.SIGCONT))
	// the first request after SIGCONT
	s := m.status(t)
	require.GreaterOrEqual(t, s.Held, still)
	require.Less(t, s.Held, time.Since(m.began))
	m.marked(t, 0)
	m.restart(t, 0)
	require.GreaterOrEqual(t, m.status(t).Held, still)
	require.Less(t, m.status(t).Held, time.Since(m.began))
}

// stopped reports whether a process is stopped by a signal.
func stopped(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, after, ok := strings.Cut(string(stat), ") ")

	return err == nil && ok && strings.HasPrefix(after, "T")
}

// A gateway that stops during a call loses the call's work, as a killed gateway does.
func TestHeldByAGatewayThatStops(t *testing.T) {
	t.Parallel()

	hang := newHanging(halfReply(), "")
	h := newHost(t)
	r := h.route(newEngine(t, hang.serve).URL)
	asked := time.Now()
	_ = startSend(t, h.open(t, r), "", streamed)
	await(t, hang.begun)

	seen := time.Now()

	time.Sleep(500 * time.Millisecond)
	// the lost work ends at a moment within stop
	least := time.Since(seen)

	h.stop()
	h.start(t)
	s := h.status(t, r.ID)
	require.GreaterOrEqual(t, s.Held, least)
	require.Less(t, s.Held, time.Since(asked))
}

// A call that was recorded after the latest mark does not count as lost. The gateway does not count as away
// before the agent's first call, even if its mark is old.
func TestRecordedCallsAreNotLost(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	r := h.route(newEngine(t, says(goodReply)).URL)
	require.Equal(t, 200, send(t.Context(), h.open(t, r), "", streamed).status)
	h.stop()
	m, err := gateway.LoadHeldMark(h.dir)
	require.NoError(t, err)
	require.Len(t, m.Routes, 1)

	for key := range m.Routes {
		m.At = time.Now()
		m.Routes[key] = gateway.HeldRoute{Calls: []gateway.HeldCall{{Turn: 1, Began: m.At.Add(-time.Hour)}}}
	}

	require.NoError(t, gateway.SaveHeldMark(h.dir, m))
	h.start(t)
	require.Less(t, h.status(t, r.ID).Held, 30*time.Minute)
	h.stop()
	require.NoError(t, gateway.SaveHeldMark(h.dir, gateway.HeldMark{At: time.Now().Add(-time.Hour)}))
	h.start(t)
	require.Less(t, h.status(t, r.ID).Held, 30*time.Minute)
}
