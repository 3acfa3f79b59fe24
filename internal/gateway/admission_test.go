package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/gateway"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
	"github.com/rolloutd/rolloutd/internal/gateway/upstream/limits"
)

func bounded(b limits.Bounds) func(*gateway.Options) {
	return func(o *gateway.Options) { o.Bounds = func(string) limits.Bounds { return b } }
}

// gatedEngine is an engine that answers one request each time the test permits it.
type gatedEngine struct{ came, answer chan string }

func (g gatedEngine) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	g.came <- string(body)

	select {
	case <-g.answer:
		says(goodReply)(w, r)
	case <-r.Context().Done():
	}
}

// queued waits until n requests wait for admission.
func (h *host) queued(t *testing.T, name string, n int) {
	t.Helper()
	h.upstream(t, name, func(now gatewayapi.UpstreamStatus) bool { return now.Queued == n })
}

// busy waits until the given numbers of requests are in flight and wait for admission.
func (h *host) busy(t *testing.T, name string, inFlight, queued int) {
	t.Helper()
	h.upstream(
		t,
		name,
		func(now gatewayapi.UpstreamStatus) bool { return now.InFlight == inFlight && now.Queued == queued },
	)
}

func (h *host) upstream(t *testing.T, name string, is func(gatewayapi.UpstreamStatus) bool) {
	t.Helper()
	require.Eventually(t, func() bool {
		now, err := h.trainer.Upstream(t.Context(), name)
		return err == nil && is(now)
	}, patience, time.Millisecond)
}

// With one call at a time, rollouts take turns, and the calls of each rollout stay in order. The record has
// the time of waiting.
func TestRolloutsTakeTurns(t *testing.T) {
	t.Parallel()

	g := gatedEngine{make(chan string, 8), make(chan string)}
	h, e := newHost(t, bounded(limits.Bounds{Calls: 1})), newEngine(t, g.serve)
	urls := map[string]string{}

	for _, id := range []string{"a", "b", "c"} {
		r := h.route(e.URL)
		r.ID, r.SandboxID, r.Model.Endpoint = id+".1", id+".1", "vllm"
		urls[id] = h.open(t, r)
	}

	var replies []<-chan reply
	for i, call := range []string{"a0", "a1", "a2", "a3", "b1", "c1", "b2"} {
		replies = append(
			replies,
			startSend(t, urls[call[:1]], call, fmt.Sprintf(`{"stream":true,"messages":[],"user":"%s"}`, call)),
		)
		// all but the first wait for admission, in this order
		h.busy(t, "vllm", 1, i)
	}

	for _, want := range []string{"a0", "a1", "b1", "c1", "a2", "b2", "a3"} {
		require.Contains(t, await(t, g.came), `"`+want+`"`)

		g.answer <- ""
	}

	for _, r := range replies {
		require.Equal(t, http.StatusOK, await(t, r).status)
	}

	turns := h.turns(t, "a.1")
	require.Len(t, turns, 4)
	require.Less(t, turns[0].QueuedS, turns[3].QueuedS)

	for _, turn := range turns {
		require.LessOrEqual(t, turn.QueuedS, turn.LatencyS)
	}
}

// Waiting for admission does not use up the time of the call.
func TestAdmissionWaitIsNotCallTime(t *testing.T) {
	t.Parallel()

	const budget = 3 * time.Second

	hang := newHanging(halfReply(), goodReply[len(halfReply()):])
	h, e := newHost(t, bounded(limits.Bounds{Calls: 1})), newEngine(t, hang.serve, says(goodReply))
	first, second := h.route(e.URL), h.route(e.URL)
	first.Model.Endpoint, second.Model.Endpoint = "vllm", "vllm"
	second.ID, second.SandboxID, second.Limits.Call = "r2.1", "r2.1", budget
	slow, url := startSend(t, h.open(t, first), "", streamed), h.open(t, second)
	await(t, hang.begun)
	waiting := startSend(t, url, "", streamed)
	h.queued(t, "vllm", 1)

	since := time.Now()

	require.Eventually(t, func() bool { return time.Since(since) > budget }, patience, 10*time.Millisecond)
	require.NoError(t, h.client.End(t.Context(), first.ID, "by hand"))
	require.Equal(t, http.StatusOK, await(t, slow).status)
	await(t, waiting)
	require.Greater(t, h.turns(t, second.ID)[0].QueuedS, budget.Seconds())
	require.Len(t, e.requests(), 2, "it is made still, whatever is left to it on a busy machine")
}

func TestCanceledWaiterLeavesTheQueue(t *testing.T) {
	t.Parallel()

	hang := newHanging(halfReply(), goodReply[len(halfReply()):])
	h, e := newHost(t, bounded(limits.Bounds{Calls: 1})), newEngine(t, hang.serve, says(goodReply))
	r, other := h.route(e.URL), h.route(e.URL)
	r.Model.Endpoint, other.Model.Endpoint = "vllm", "vllm"
	other.ID, other.SandboxID = "r2.1", "r2.1"
	first, otherURL := startSend(t, h.open(t, r), "", streamed), h.open(t, other)
	await(t, hang.begun)
	gone := startSend(t, otherURL, "", streamed)
	h.queued(t, "vllm", 1)
	require.NoError(t, h.client.End(t.Context(), other.ID, "by hand"))
	require.Contains(t, await(t, gone).body, `"finish_reason":"stop"`)
	h.queued(t, "vllm", 0)
	close(hang.release)
	require.Equal(t, goodReply, await(t, first).body)
	require.Len(t, e.requests(), 1)
	now, err := h.trainer.Upstream(t.Context(), "vllm")
	require.NoError(t, err)
	require.Zero(t, now.InFlight)
}

// The rate of requests is bounded over all callers.
func TestRate(t *testing.T) {
	t.Parallel()
	h, e := newHost(t, bounded(limits.Bounds{Rate: 10, Burst: 1})), newEngine(t, says(goodReply))
	url, began := h.open(t, h.route(e.URL)), time.Now()

	var all []<-chan reply
	for range 6 {
		all = append(all, startSend(t, url, "", streamed))
	}

	for _, r := range all {
		require.Equal(t, http.StatusOK, await(t, r).status)
	}

	require.GreaterOrEqual(
		t,
		time.Since(began),
		480*time.Millisecond,
		"a lower bound: five waited a tenth of a second each",
	)
}

// All calls to an upstream wait when it asks for a pause.
func TestRetryAfterPausesTheUpstream(t *testing.T) {
	t.Parallel()
	h, e := newHost(t), newEngine(t, answers(429, "", "Retry-After", "5"), says(goodReply))
	r, other := h.route(e.URL), h.route(e.URL)
	other.ID, other.SandboxID = "r2.1", "r2.1"
	url, otherURL := h.open(t, r), h.open(t, other)
	first := startSend(t, url, "", streamed)
	name := strings.TrimPrefix(e.URL, "http://")

	require.Eventually(t, func() bool {
		now, err := h.trainer.Upstream(t.Context(), name)
		return err == nil && !now.HeldUntil.IsZero()
	}, patience, time.Millisecond)
	second := startSend(t, otherURL, "", streamed)
	h.queued(t, name, 1)
	require.Len(t, e.requests(), 1)
	require.Equal(t, goodReply, await(t, second).body)
	require.Equal(t, goodReply, await(t, first).body)
	require.Equal(t, 1, h.turns(t, other.ID)[0].UpstreamTries)
	require.Positive(t, h.turns(t, other.ID)[0].QueuedS)
}
