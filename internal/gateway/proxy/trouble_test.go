package proxy_test

import (
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway/proxy"
)

// An address without a listener is reported before the agent calls, and ends a call long before its budget does.
func TestUnreachableEndpoint(t *testing.T) {
	t.Parallel()
	gone := httptest.NewServer(nil)
	gone.Close()
	h := newHost(t, func(o *proxy.Options) { o.Reach = 50 * time.Millisecond })
	r := h.route(gone.URL)
	r.Limits.Call = time.Hour
	url := h.open(t, r)
	require.Eventually(t, func() bool { return h.status(t, r.ID).Trouble != "" }, patience, pollStep)
	require.Contains(t, h.status(t, r.ID).Trouble, "connection refused")
	require.Equal(t, 400, send(t.Context(), url, "", streamed).status)
	s := h.status(t, r.ID)
	require.Equal(t, fault.UpstreamFailed, s.Failure.Kind)
	require.Contains(t, s.Failure.Message, "connection refused")
	require.Empty(t, s.Trouble, "no call is under way")
}

// Of several engines one that can be reached is enough.
func TestOneEngineIsReached(t *testing.T) {
	t.Parallel()
	gone := httptest.NewServer(nil)
	gone.Close()
	h := newHost(t)
	r := h.route(gone.URL + "," + newEngine(t, says(goodReply)).URL)
	require.Equal(t, 200, send(t.Context(), h.open(t, r), "", streamed).status)
	require.Empty(t, h.status(t, r.ID).Trouble)
}

// Why a call is retried is in the status meanwhile, and wakes the callers that wait for a change; once a reply comes it is over.
func TestTroubleOfACall(t *testing.T) {
	t.Parallel()
	h, hang := newHost(t), newHanging(half(), "")
	r := h.route(newEngine(t, answers(500, `{"message":"out of memory"}`), answers(500, `{"message":"out of memory"}`), hang.serve).URL)
	url := h.open(t, r)
	since := h.status(t, r.ID).Version
	call := later(t, url, "", streamed)
	for trouble := ""; trouble == ""; {
		s, err := h.client.Changed(t.Context(), r.ID, since, patience)
		require.NoError(t, err)
		since, trouble = s.Version, s.Trouble
		if trouble != "" {
			require.Contains(t, trouble, "out of memory")
		}
	}
	await(t, hang.begun)
	require.Eventually(t, func() bool { return h.status(t, r.ID).Trouble == "" }, patience, pollStep)
	require.NoError(t, h.client.End(t.Context(), r.ID, "over"))
	await(t, call)
}
