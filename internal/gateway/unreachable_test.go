package gateway_test

import (
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
	"github.com/rolloutd/rolloutd/internal/network/lostconn/lostconntest"
)

// An address without a listener is reported before the agent calls, and ends a call long before the call's time limit.
func TestUnreachableEndpoint(t *testing.T) {
	t.Parallel()
	gone := "http://" + lostconntest.Refusing(t)
	h := newHost(t, func(o *gateway.Options) { o.Reach = 50 * time.Millisecond })
	r := h.route(gone)
	r.Limits.Call = time.Hour
	url := h.open(t, r)
	require.Eventually(t, func() bool { return h.status(t, r.ID).Trouble != "" }, patience, pollStep)
	require.Regexp(
		t,
		`^unreachable since .*connection refused.*never answered this host, so rollouts end after 50ms$`,
		h.status(t, r.ID).Trouble,
	)
	require.Equal(t, 400, send(t.Context(), url, "", streamed).status)
	s := h.status(t, r.ID)
	require.Equal(t, fault.UpstreamRefused, s.Failure.Kind, "another attempt would fail in the same way")
	require.Contains(t, s.Failure.Message, "has never answered")
	require.Contains(t, s.Failure.Message, "connection refused")
	require.Empty(t, s.Trouble, "no call is under way")
}

// While an endpoint fails to tokenise, the status has its error and the time counts as owed. After the time
// limit of a call, the failure is final.
func TestTokenizeFails(t *testing.T) {
	t.Parallel()

	var works atomic.Bool

	h, e := newHost(t), newEngine(t, func(w http.ResponseWriter, _ *http.Request) {
		if !works.Load() {
			http.Error(w, `{"message":"overloaded"}`, http.StatusServiceUnavailable)
			return
		}

		_, _ = io.WriteString(w, `{"tokens":[1,2,3]}`)
	})
	r := h.route(e.URL)
	r.Limits.Call = time.Hour
	m := h.onHost(t, r)
	since := h.status(t, r.ID).Version
	_, err := m.Tokenize(t.Context(), nil)
	require.True(t, fault.Is(err, fault.Unavailable), err)
	s := h.status(t, r.ID)
	require.Contains(t, s.Trouble, "overloaded")
	require.NotZero(t, s.OwedSince)
	require.NotEqual(t, since, s.Version)
	require.Nil(t, s.Failure)
	works.Store(true)

	_, err = m.Tokenize(t.Context(), nil)
	require.NoError(t, err)
	s = h.status(t, r.ID)
	require.Empty(t, s.Trouble)
	require.Zero(t, s.OwedSince)
	require.NotZero(t, s.Owed)

	works.Store(false)

	brief := h.route(e.URL)
	brief.ID, brief.Limits.Call = "r1.2", time.Nanosecond
	_, err = h.onHost(t, brief).Tokenize(t.Context(), nil)
	require.Error(t, err)
	s = h.status(t, brief.ID)
	require.NotNil(t, s.Failure)
	require.Equal(t, fault.UpstreamFailed, s.Failure.Kind)
	require.Contains(t, s.Failure.Message, "overloaded")
}

// When the endpoint's address has no listener, a tokenize request of an agent on the host fails as early as
// a call does.
func TestUnreachableEndpointOfAPrompt(t *testing.T) {
	t.Parallel()
	gone := "http://" + lostconntest.Refusing(t)
	h := newHost(t, func(o *gateway.Options) { o.Reach = 50 * time.Millisecond })
	r := h.route(gone)
	r.Limits.Call = time.Hour
	m := h.onHost(t, r)
	_, err := m.Tokenize(t.Context(), nil)
	require.True(t, fault.Is(err, fault.Unavailable), err)
	require.Eventually(t, func() bool {
		_, _ = m.Tokenize(t.Context(), nil)
		return h.status(t, r.ID).Failure != nil
	}, patience, pollStep)
	s := h.status(t, r.ID)
	require.Equal(t, fault.UpstreamRefused, s.Failure.Kind)
	require.Contains(t, s.Failure.Message, "connection refused")
}

// If one of several engines is gone, another one tokenises.
func TestOneEngineTokenizes(t *testing.T) {
	t.Parallel()
	gone := "http://" + lostconntest.Refusing(t)
	works := newEngine(
		t,
		func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"tokens":[1,2,3]}`) },
	)
	h := newHost(t)
	m := h.onHost(t, h.route(gone+","+works.URL))

	var err error
	// the first request may go to the engine that is gone
	for range 2 {
		_, err = m.Tokenize(t.Context(), nil)
	}

	require.NoError(t, err)
}

// One reachable engine of several is sufficient.
func TestOneEngineIsReached(t *testing.T) {
	t.Parallel()
	gone := "http://" + lostconntest.Refusing(t)
	h := newHost(t)
	r := h.route(gone + "," + newEngine(t, says(goodReply)).URL)
	require.Equal(t, 200, send(t.Context(), h.open(t, r), "", streamed).status)
	require.Empty(t, h.status(t, r.ID).Trouble)
}

// While a call is retried, the status has the reason, and watches receive the change. The reason is cleared
// once a reply begins.
func TestStatusHasTheReasonOfARetry(t *testing.T) {
	t.Parallel()
	h, hang := newHost(t), newHanging(halfReply(), "")
	r := h.route(
		newEngine(
			t,
			answers(500, `{"message":"out of memory"}`),
			answers(500, `{"message":"out of memory"}`),
			hang.serve,
		).URL,
	)
	url := h.open(t, r)
	changes := watch(t, h.client, r.ID, h.status(t, r.ID).Version)
	call := startSend(t, url, "", streamed)
	s := statusOf(t, changes, func(s gatewayapi.RouteStatus) bool { return s.Trouble != "" })
	require.Contains(t, s.Trouble, "out of memory")
	await(t, hang.begun)
	require.Eventually(t, func() bool { return h.status(t, r.ID).Trouble == "" }, patience, pollStep)
	require.NoError(t, h.client.End(t.Context(), r.ID, "over"))
	await(t, call)
}
