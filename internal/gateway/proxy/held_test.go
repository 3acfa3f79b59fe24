package proxy_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/gateway"
	"github.com/rolloutd/rolloutd/internal/gateway/proxy"
	"github.com/rolloutd/rolloutd/internal/gateway/upstream/limits"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
	"github.com/rolloutd/rolloutd/internal/seal"
)

const title = `{"messages":[{"role":"system","content":"You are a title generator."}]}`

// holds waits until calls of the route have been held back for so long.
func (h *host) holds(t *testing.T, d time.Duration) {
	t.Helper()
	require.Eventually(t, func() bool {
		s := h.status(t, "r1.1")
		return s.Holding && s.Held >= d
	}, patience, pollStep)
}

// The time of a pause counts as held while it goes on and when it is over, of calls at the same time once, and of the agent's own calls alone.
func TestHeldWhilePaused(t *testing.T) {
	t.Parallel()
	h, e := newHost(t), newEngine(t, says(goodReply))
	r := h.route(e.URL)
	r.Model.Endpoint, r.Origin = "vllm", "agent.1"
	url := h.open(t, r)
	own := []string{wire.OriginHeader, "agent.1"}
	require.Equal(t, 200, send(t.Context(), url, "", streamed, own...).status)
	pause := func() {
		_, err := h.trainer.Pause(t.Context(), "vllm", time.Hour)
		require.NoError(t, err)
	}
	resume := func() {
		_, err := h.trainer.Resume(t.Context(), "vllm", "")
		require.NoError(t, err)
	}
	pause()
	others := []<-chan reply{later(t, url, "", streamed, wire.OriginHeader, "shell"), later(t, url, "", title, own...)}
	h.queued(t, "vllm", 2)
	time.Sleep(300 * time.Millisecond)
	s := h.status(t, r.ID)
	require.False(t, s.Holding)
	require.Zero(t, s.Held, "nothing that the agent waits for")

	began := time.Now()
	calls := append(others, later(t, url, "", streamed, own...), later(t, url, "", streamed, own...), later(t, url, "", streamed, own...))
	h.holds(t, 500*time.Millisecond)
	resume()
	for _, call := range calls {
		require.Equal(t, 200, await(t, call).status)
	}
	s = h.status(t, r.ID)
	require.False(t, s.Holding)
	require.GreaterOrEqual(t, s.Held, 500*time.Millisecond)
	require.LessOrEqual(t, s.Held, time.Since(began))

	before := s.Held
	pause() // while the agent does something else
	time.Sleep(300 * time.Millisecond)
	resume()
	require.Equal(t, 200, send(t.Context(), url, "", streamed, own...).status)
	require.Equal(t, before, h.status(t, r.ID).Held)
}

// What a drain takes from a call counts as held: the try that it ended, and the pause.
func TestHeldByADrain(t *testing.T) {
	t.Parallel()
	hang := newHanging(half(), "")
	h, e := newHost(t), newEngine(t, hang.serve, says(goodReply))
	r := h.route(e.URL)
	r.Model.Endpoint = "vllm"
	got := later(t, h.open(t, r), "", streamed)
	await(t, hang.begun)
	time.Sleep(500 * time.Millisecond)
	require.Zero(t, h.status(t, r.ID).Held, "the endpoint works on it")
	_, err := h.trainer.Drain(t.Context(), "vllm", time.Hour, time.Millisecond, true)
	require.NoError(t, err)
	h.holds(t, 500*time.Millisecond)
	_, err = h.trainer.Resume(t.Context(), "vllm", "")
	require.NoError(t, err)
	require.Equal(t, goodReply, await(t, got).body)
}

// Tries that failed count as held, up to the next try. A wait for other calls and a call that hangs do not: an agent makes as many calls as it likes.
func TestHeldByAnEndpointThatFails(t *testing.T) {
	t.Parallel()
	hang := newHanging("", goodReply)
	h := newHost(t, func(o *proxy.Options) { o.Bounds = func(string) limits.Bounds { return limits.Bounds{Calls: 1} } })
	e := newEngine(t, answers(503, "{}", "Retry-After-Ms", "500"), says(goodReply), hang.serve, says(goodReply))
	r := h.route(e.URL)
	url := h.open(t, r)
	require.Equal(t, 200, send(t.Context(), url, "", streamed).status)
	held := h.status(t, r.ID).Held
	require.GreaterOrEqual(t, held, 500*time.Millisecond)

	calls := []<-chan reply{later(t, url, "", streamed)}
	await(t, hang.begun)
	calls = append(calls, later(t, url, "", streamed))
	h.queued(t, e.Listener.Addr().String(), 1)
	time.Sleep(300 * time.Millisecond)
	require.False(t, h.status(t, r.ID).Holding)
	close(hang.release)
	for _, call := range calls {
		require.Equal(t, 200, await(t, call).status)
	}
	require.Equal(t, held, h.status(t, r.ID).Held)
}

// The time of calls that a gateway held back when it was killed, and the time until it is back, are not lost.
func TestHeldByAGatewayThatDies(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]http.HandlerFunc{
		"calls are held back": answers(503, "{}", "Retry-After", "60"),
		"they are not":        says(goodReply),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			key, err := seal.LoadOrCreate(dir + "/key")
			require.NoError(t, err)
			p := startProcess(t, dir)
			c := gateway.NewClient(p.admin, key)
			r := (&host{key: key}).route(newEngine(t, says(goodReply), first).URL)
			require.NoError(t, c.Open(t.Context(), r))
			url := p.read(t, r.ID)
			require.Equal(t, 200, send(t.Context(), url, "a", streamed).status)
			_ = later(t, url, "b", streamed)
			journal, alive := filepath.Join(dir, "gateway", r.ID, "route.json"), filepath.Join(dir, "gateway", ".alive")
			if strings.HasPrefix(name, "calls") {
				require.Eventually(t, func() bool {
					raw, err := os.ReadFile(journal)
					return err == nil && strings.Contains(string(raw), `"held_at"`)
				}, patience, pollStep)
			}
			before, err := c.Status(t.Context(), r.ID)
			require.NoError(t, err)
			p.kill()
			info, err := os.Stat(alive)
			require.NoError(t, err)
			time.Sleep(time.Second)
			away := time.Since(info.ModTime())
			if before.Holding {
				away = time.Second // counted since before, which is later
			}
			p = startProcess(t, dir)
			defer p.kill()
			s, err := gateway.NewClient(p.admin, key).Status(t.Context(), r.ID)
			require.NoError(t, err)
			require.GreaterOrEqual(t, s.Held, before.Held+away)
			require.Less(t, s.Held, before.Held+away+time.Minute)
		})
	}
}
