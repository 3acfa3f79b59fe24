package gateway_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway"
	"github.com/rolloutd/rolloutd/internal/network/lostconn/lostconntest"
)

// restarting is an engine that can be stopped and started again at its address.
type restarting struct {
	URL   string
	start func(http.Handler) (stop func())
}

func newRestarting(t *testing.T) restarting {
	t.Helper()
	address, listen := lostconntest.RefusingAtFirst(t)

	return restarting{"http://" + address, func(h http.Handler) func() {
		srv := &httptest.Server{Listener: listen(), Config: &http.Server{Handler: h}}
		srv.Start()

		stop := func() {
			srv.CloseClientConnections()
			srv.Close()
		}
		t.Cleanup(stop)

		return stop
	}}
}

// The bounds of a call in these tests are shorter than the time for which the engine is away.
const (
	shortReach = 20 * time.Millisecond
	shortCall  = time.Second
)

func reachesShortly(o *gateway.Options) { o.Reach = shortReach }

// A call of an endpoint that has answered before waits while the endpoint refuses connections, for longer
// than the call's own time and over a restart of the gateway, and counts as held.
func TestAwayEndpoint(t *testing.T) {
	t.Parallel()
	h, e := newHost(t, reachesShortly), newRestarting(t)
	r := h.route(e.URL)
	r.Limits.Call, r.Limits.Held = shortCall, time.Hour
	stop := e.start(says(goodReply))
	url := h.open(t, r)
	require.Equal(t, 200, send(t.Context(), url, "first", streamed).status)

	stop()

	agent, hangUp := context.WithCancel(t.Context())
	defer hangUp()

	call := make(chan reply, 1)
	go func() { call <- send(agent, url, "second", streamed) }()

	require.Eventually(t, func() bool { return h.status(t, r.ID).Held > 2*shortCall }, patience, pollStep)
	require.Nil(t, h.status(t, r.ID).Failure)

	h.stop()
	h.start(t)
	again := startSend(t, h.channels.url(t, r.SandboxID), "second", streamed)
	before := h.status(t, r.ID).Held
	require.Eventually(t, func() bool { return h.status(t, r.ID).Held > before+2*shortCall }, patience, pollStep)
	require.Nil(t, h.status(t, r.ID).Failure)
	require.Contains(t, h.status(t, r.ID).Trouble, "connection refused")

	e.start(says(goodReply))
	require.Equal(t, 200, await(t, again).status)
	require.Equal(t, 2, h.status(t, r.ID).Turns)
}

// An endpoint that stays away for longer than limits.held_s fails. Another attempt may succeed.
func TestEndpointIsAwayForTooLong(t *testing.T) {
	t.Parallel()
	h, e := newHost(t, reachesShortly), newRestarting(t)
	r := h.route(e.URL)
	r.Limits.Call, r.Limits.Held = time.Hour, 10*shortReach
	stop := e.start(says(goodReply))
	url := h.open(t, r)
	require.Equal(t, 200, send(t.Context(), url, "first", streamed).status)
	stop()
	require.Equal(t, 400, send(t.Context(), url, "second", streamed).status)
	s := h.status(t, r.ID)
	require.Equal(t, fault.UpstreamFailed, s.Failure.Kind)
	require.Contains(t, s.Failure.Message, "connection refused")
}

// A rollout that begins while the endpoint is away waits, too: the endpoint has answered another rollout of this host.
func TestAwayEndpointOfANewRollout(t *testing.T) {
	t.Parallel()
	h, e := newHost(t, reachesShortly), newRestarting(t)
	r := h.route(e.URL)
	stop := e.start(says(goodReply))

	require.Equal(t, 200, send(t.Context(), h.open(t, r), "", streamed).status)
	stop()

	next := h.route(e.URL)
	next.ID, next.SandboxID, next.RolloutID = "r2.1", "r2.1", "r2"
	next.Limits.Call, next.Limits.Held = shortCall, time.Hour
	call := startSend(t, h.open(t, next), "", streamed)
	require.Eventually(t, func() bool { return h.status(t, next.ID).Held > 2*shortCall }, patience, pollStep)
	e.start(says(goodReply))
	require.Equal(t, 200, await(t, call).status)
}

// An endpoint that refuses connections is unreachable in the status of its rollouts, for new rollouts, and in the
// metrics, in the same words and since the same time. New rollouts wait until a connection can be made, although no
// call shows that.
func TestUnreachableInOneWording(t *testing.T) {
	t.Parallel()

	reg := prometheus.NewRegistry()
	h, e := newHost(t, reachesShortly, func(o *gateway.Options) {
		o.Registerer, o.Endpoints = reg, []string{"vllm"}
	}), newRestarting(t)
	r := h.route(e.URL)
	r.Model.Endpoint, r.Limits.Held = "vllm", time.Hour
	metric := `endpoint_unreachable_since_seconds{vllm}`

	stop := e.start(says(goodReply))
	url := h.open(t, r)
	require.Equal(t, 200, send(t.Context(), url, "first", streamed).status)
	require.NoError(t, h.client.Ready(t.Context(), "vllm"))
	require.Zero(t, readMetrics(t, reg)[metric])

	stop()

	call := startSend(t, url, "second", streamed)
	require.Eventually(t, func() bool { return h.status(t, r.ID).Unreachable }, patience, pollStep)

	words := h.status(t, r.ID).Trouble
	require.Regexp(
		t,
		`^unreachable since \d\d:\d\d:\d\d UTC \(.*connection refused\): it has answered before, so rollouts are held`,
		words,
	)

	waits := h.client.Ready(t.Context(), "vllm")
	require.True(t, fault.Is(waits, fault.Exhausted), "%v", waits)
	require.ErrorContains(t, waits, `model endpoint "vllm": `+words)

	state, err := h.trainer.Upstream(t.Context(), "vllm")
	require.NoError(t, err)
	require.Equal(t, words, state.Unreachable)
	require.InDelta(t, state.UnreachableSince.Unix(), readMetrics(t, reg)[metric], 1)

	require.NoError(t, h.client.End(t.Context(), r.ID, "over"))
	await(t, call)
	require.Error(t, h.client.Ready(t.Context(), "vllm"))

	e.start(says(goodReply))
	require.Eventually(
		t,
		func() bool { return h.client.Ready(t.Context(), "vllm") == nil },
		patience,
		pollStep,
		"no rollout makes a call that would show that the endpoint is back",
	)
	require.Zero(t, readMetrics(t, reg)[metric])
}

// An agent with a time limit of its own gives up its call. The status has that until the endpoint answers
// again, so that the agent's failure is not the policy's.
func TestAgentGivesUpAnAwayEndpoint(t *testing.T) {
	t.Parallel()
	h, e := newHost(t, reachesShortly), newRestarting(t)
	r := h.route(e.URL)
	r.Limits.Held = time.Hour
	stop := e.start(says(goodReply))
	url := h.open(t, r)
	require.Equal(t, 200, send(t.Context(), url, "", streamed).status)

	stop()

	agent, hangUp := context.WithCancel(t.Context())
	defer hangUp()

	go send(agent, url, "second", streamed)

	require.Eventually(
		t,
		func() bool { return h.status(t, r.ID).Held > 2*shortReach+100*time.Millisecond },
		patience,
		pollStep,
	)
	hangUp()
	require.Eventually(t, func() bool { return h.status(t, r.ID).GivenUp != nil }, patience, pollStep)
	require.Contains(t, h.status(t, r.ID).GivenUp.Message, "connection refused")
	h.stop()
	h.start(t)
	require.NotNil(t, h.status(t, r.ID).GivenUp)

	e.start(says(goodReply))
	require.Equal(t, 200, send(t.Context(), h.channels.url(t, r.SandboxID), "third", streamed).status)
	require.Nil(t, h.status(t, r.ID).GivenUp)
}

// A prompt of ReACT is tokenised when the endpoint is back, however short the time of a call.
func TestAwayEndpointOfAPrompt(t *testing.T) {
	t.Parallel()
	h, e := newHost(t, reachesShortly), newRestarting(t)
	tokens := http.HandlerFunc(
		func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"tokens":[1,2,3]}`) },
	)
	r := h.route(e.URL)
	r.Limits.Call, r.Limits.Held = 10*shortReach, time.Hour
	stop := e.start(tokens)
	m := h.onHost(t, r)
	_, err := m.Tokenize(t.Context(), nil)
	require.NoError(t, err)

	stop()
	require.Eventually(t, func() bool {
		_, err := m.Tokenize(t.Context(), nil)
		require.True(t, fault.Is(err, fault.Unavailable), err)

		return h.status(t, r.ID).Held > 2*r.Limits.Call
	}, patience, pollStep)
	require.Nil(t, h.status(t, r.ID).Failure)
	e.start(tokens)

	_, err = m.Tokenize(t.Context(), nil)
	require.NoError(t, err)
}
