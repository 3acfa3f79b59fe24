package gateway_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway"
)

// gauge returns the value of a gauge or a counter.
func gauge(t *testing.T, r *prometheus.Registry, name string) float64 {
	t.Helper()

	all, err := r.Gather()
	require.NoError(t, err)

	for _, f := range all {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue() + f.GetMetric()[0].GetCounter().GetValue()
		}
	}

	require.FailNow(t, "no metric "+name)

	return 0
}

// large returns a complete reply of at least size bytes.
func large(size int) string {
	event := `data: {"choices":[{"index":0,"delta":{"content":"` + strings.Repeat("x", 1000) + `"}}]}` + "\n\n"
	events := strings.SplitAfter(goodReply, "\n\n")

	return events[0] + strings.Repeat(event, size/len(event)) + strings.Join(events[1:], "")
}

// awaitLargeHeld waits until the gateway has read the sent part of a hanging reply of 4 MiB. The gateway
// then holds 10.2 MiB, or 9.9 MiB after a reply of the same size. While its buffers grow, it holds other
// amounts.
func awaitLargeHeld(t *testing.T, registry *prometheus.Registry) {
	t.Helper()

	same, last := 0, 0.0

	require.Eventually(t, func() bool {
		now := gauge(t, registry, "rolloutd_gateway_reply_memory_bytes")
		if now != last || now < 9.5*(1<<20) || now > 11<<20 {
			same, last = 0, now
			return false
		}

		same++

		return same == 50
	}, patience, time.Millisecond)
}

// A reply for which there is no memory is requested again, and arrives once another reply has released its
// memory. The endpoint is not considered failed.
func TestACallWaitsForMemory(t *testing.T) {
	t.Parallel()

	whole := large(4 << 20)
	hung := newHanging(whole[:len(whole)-200], whole[len(whole)-200:])
	registry := prometheus.NewRegistry()
	h := newHost(t, func(o *gateway.Options) { o.ReplyMemory, o.Registerer = 72<<20, registry })
	url := h.open(t, h.route(newEngine(t, hung.serve, says(whole)).URL))
	first := startSend(t, url, "first", streamed)
	await(t, hung.begun)
	awaitLargeHeld(t, registry)
	second := startSend(t, url, "second", streamed)
	require.Eventually(
		t,
		func() bool { return gauge(t, registry, "rolloutd_gateway_replies_given_up_total") > 2 },
		patience,
		time.Millisecond,
	)
	// The status has no trouble while an upstream request receives its first bytes.
	require.Eventually(
		t,
		func() bool { return strings.Contains(h.status(t, "r1.1").Trouble, "gateway.reply_memory_mib") },
		patience,
		time.Millisecond,
	)
	require.NoError(t, h.server.Ready(h.route("").Model.Upstream()), "the endpoint is well")
	close(hung.release)
	require.Equal(t, whole, await(t, first).body)
	require.Equal(t, whole, await(t, second).body)
	turns := h.turns(t, "r1.1")
	require.Len(t, turns, 2)
	require.Greater(t, turns[1].UpstreamTries, 1)

	for _, turn := range turns {
		require.Empty(t, turn.Broken)
		require.True(t, turn.Train)
	}

	require.Nil(t, h.status(t, "r1.1").Failure)
}

// A recorded reply waits for memory. The sandbox repeats a request only a few times, and a failure would be
// attributed to the agent.
func TestARecordedAnswerWaitsForMemory(t *testing.T) {
	t.Parallel()

	whole := large(4 << 20)
	hung := newHanging(whole[:len(whole)-200], whole[len(whole)-200:])
	registry := prometheus.NewRegistry()
	h := newHost(t, func(o *gateway.Options) { o.ReplyMemory, o.Registerer = 72<<20, registry })
	url := h.open(t, h.route(newEngine(t, says(whole), hung.serve).URL))
	require.Equal(t, whole, send(t.Context(), url, "first", streamed).body)
	second := startSend(t, url, "second", streamed)
	await(t, hung.begun)
	awaitLargeHeld(t, registry)

	again := startSend(t, url, "first", streamed)
	select {
	case got := <-again:
		require.FailNow(t, "answered without memory", "%d %v", got.status, got.err)
	case <-time.After(300 * time.Millisecond):
	}

	close(hung.release)
	require.Equal(t, whole, await(t, second).body)
	require.Equal(t, whole, await(t, again).body)
	require.Len(t, h.turns(t, "r1.1"), 2)
}

// A recorded reply that gets no memory within the time of a call is a failure of the gateway.
func TestARecordedAnswerWithoutMemoryFails(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	r := h.route(newEngine(t, says(large(4<<20))).URL)
	r.Limits.Call = 5 * time.Second
	require.Equal(t, http.StatusOK, send(t.Context(), h.open(t, r), "first", streamed).status)
	h.stop()
	h.options.ReplyMemory = 1 << 20
	h.start(t)
	require.Equal(t, http.StatusBadRequest, send(t.Context(), h.channels.url(t, r.SandboxID), "first", streamed).status)
	failure := h.status(t, r.ID).Failure
	require.NotNil(t, failure)
	require.Contains(t, failure.Message, "wait for memory")
}

// A call that gets no memory within its time ends as an infrastructure failure that names the gateway.
func TestACallWithoutMemoryFails(t *testing.T) {
	t.Parallel()
	h := newHost(t, func(o *gateway.Options) { o.ReplyMemory = 1 << 20 })
	r := h.route(newEngine(t, says(large(4<<20))).URL)
	// long enough for one upstream request on a busy machine
	r.Limits.Call = 5 * time.Second
	got := send(t.Context(), h.open(t, r), "", streamed)
	require.Equal(t, http.StatusBadRequest, got.status)
	failure := h.status(t, "r1.1").Failure
	require.NotNil(t, failure)
	require.Equal(t, fault.Unavailable, failure.Kind)
	require.Contains(t, failure.Message, "the gateway has no memory for the reply")
	turns := h.turns(t, "r1.1")
	require.Len(t, turns, 1)
	require.Contains(t, turns[0].Broken, "failed: the gateway has no memory")
	require.False(t, turns[0].Train)
}

// unfinishedReply sends about size bytes of a reply and then nothing more.
func unfinishedReply(size int) http.HandlerFunc {
	text := large(size)

	return func(w http.ResponseWriter, r *http.Request) {
		says(text[:len(text)-200])(w, r)
		_ = http.NewResponseController(w).Flush()

		<-r.Context().Done()
	}
}

// A rollout that requests long replies and does not read them leaves enough memory for other rollouts of
// its endpoint: their large replies succeed at the first upstream request.
func TestRouteLeavesMemoryForOthers(t *testing.T) {
	t.Parallel()

	registry := prometheus.NewRegistry()
	h := newHost(t, func(o *gateway.Options) { o.ReplyMemory, o.Registerer = 96<<20, registry })
	held := func() float64 { return gauge(t, registry, "rolloutd_gateway_reply_memory_bytes") }
	starved := func() bool { return gauge(t, registry, "rolloutd_gateway_replies_given_up_total") > 0 }
	r := h.route(newEngine(t, unfinishedReply(1<<20)).URL)
	r.ID, r.SandboxID = "hog.1", "hog.1"

	url := h.open(t, r)
	for n := 0; !starved(); n++ {
		require.Less(t, n, 64, "one route may hold everything")
		startSend(t, url, "", streamed)
		require.Eventually(
			t,
			func() bool { return starved() || held() >= float64((n+1)<<20) },
			patience,
			time.Millisecond,
			"the gateway has read it",
		)
	}

	require.Greater(t, held(), float64(8<<20))
	require.LessOrEqual(t, held(), float64(24<<20), "half of what the replies of clients' endpoints may hold")

	whole := large(4 << 20)
	require.Equal(t, whole, send(t.Context(), h.open(t, h.route(newEngine(t, says(whole)).URL)), "", streamed).body)
	turns := h.turns(t, "r1.1")
	require.Len(t, turns, 1)
	require.Equal(t, 1, turns[0].UpstreamTries)
}

// New rollouts wait while the replies of their endpoint use all the memory that they may use. Rollouts of
// other endpoints do not wait.
func TestNewRolloutsWaitForMemory(t *testing.T) {
	t.Parallel()
	h := newHost(t, func(o *gateway.Options) { o.ReplyMemory, o.Endpoints = 64<<20, []string{"vllm", "openai"} })

	bad := newEngine(t, unfinishedReply(600<<10))
	for n := range 32 {
		r := h.route(bad.URL)
		r.ID, r.SandboxID, r.Model.Endpoint = fmt.Sprintf("hog%d.1", n), fmt.Sprintf("hog%d.1", n), "vllm"
		startSend(t, h.open(t, r), "", streamed)
	}

	var err error

	require.Eventually(t, func() bool {
		err = h.server.Ready("vllm")
		return err != nil
	}, patience, time.Millisecond, "the memory is never used up")
	require.True(t, fault.Is(err, fault.Exhausted), "%v", err)
	require.ErrorContains(t, err, "gateway.reply_memory_mib")
	require.NoError(t, h.server.Ready("openai"))
	require.NoError(t, h.server.Ready("127.0.0.1:1"))
}
