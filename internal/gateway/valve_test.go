package gateway_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/gateway"
)

// upstream asks the admin API about an upstream, as a trainer does.
func (h *host) upstream(t *testing.T, method, path, body string) (int, gateway.UpstreamStatus) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, h.admin+"/upstreams/"+path, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+h.key.Token("gateway admin"))
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	var s gateway.UpstreamStatus
	if res.StatusCode == http.StatusOK {
		require.NoError(t, json.NewDecoder(res.Body).Decode(&s))
	}
	return res.StatusCode, s
}

// A drain lets the call under way end, holds the next one back, and resume lets it go.
func TestDrainAndResume(t *testing.T) {
	t.Parallel()
	hang := newHanging(half(), goodReply[len(half()):])
	h, e := newHost(t), newEngine(t, hang.serve, says(goodReply))
	r := h.route(e.URL)
	r.Model.Endpoint = "vllm"
	url := h.open(t, r)
	first := later(t, url, "", streamed)
	await(t, hang.begun)

	status, _ := h.upstream(t, http.MethodPost, "vllm/drain", `{"for_s":600,"wait_s":0.01}`)
	require.Equal(t, http.StatusGatewayTimeout, status, "a call is under way")
	_, now := h.upstream(t, http.MethodGet, "vllm", "")
	require.True(t, now.Paused, "and stays paused")
	require.Equal(t, 1, now.InFlight)

	second := later(t, url, "", streamed)
	require.Eventually(t, func() bool { return h.status(t, r.ID).InFlight == 2 }, patience, time.Millisecond)
	close(hang.release)
	require.Equal(t, goodReply, await(t, first).body)
	status, now = h.upstream(t, http.MethodPost, "vllm/drain", `{"for_s":600,"wait_s":20}`)
	require.Equal(t, http.StatusOK, status)
	require.Zero(t, now.InFlight)
	require.WithinDuration(t, time.Now().Add(10*time.Minute), now.Until, time.Minute)
	require.Len(t, e.requests(), 1, "the second is held back")

	_, now = h.upstream(t, http.MethodPost, "vllm/resume", "")
	require.Equal(t, gateway.UpstreamStatus{InFlight: now.InFlight}, now)
	require.Equal(t, goodReply, await(t, second).body)
	require.Len(t, h.turns(t, r.ID), 2)
}

// A pause ends by itself, does not touch other upstreams, and does not hold an ended rollout's calls.
func TestPause(t *testing.T) {
	t.Parallel()
	h, e := newHost(t), newEngine(t, says(goodReply))
	r, other := h.route(e.URL), h.route(e.URL)
	r.Model.Endpoint = "vllm"
	other.ID, other.SandboxID = "r2.1", "r2.1" // known by host and port
	url, otherURL := h.open(t, r), h.open(t, other)

	status, _ := h.upstream(t, http.MethodPost, "vllm/pause", `{"for_s":0.2}`)
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, goodReply, send(t.Context(), url, "", streamed).body, "once the pause is over")
	h.upstream(t, http.MethodPost, "vllm/pause", `{"for_s":600}`)
	require.Equal(t, goodReply, send(t.Context(), otherURL, "", streamed).body)

	held := later(t, url, "", streamed)
	require.Eventually(t, func() bool { return h.status(t, r.ID).InFlight == 1 }, patience, time.Millisecond)
	require.NoError(t, h.client.End(t.Context(), r.ID, "by hand"))
	require.Contains(t, await(t, held).body, `"finish_reason":"stop"`)
	require.Equal(t, "aborted: by hand", h.turns(t, r.ID)[1].Broken)
	require.Len(t, e.requests(), 2)
}

func TestPauseRefusesNonsense(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	for _, body := range []string{"", "{}", `{"for_s":-1}`, `{"for_s":1e9}`, `{"for_s":1,"wait_s":-1}`} {
		status, _ := h.upstream(t, http.MethodPost, "vllm/drain", body)
		require.Equal(t, http.StatusUnprocessableEntity, status, body)
	}
	_, now := h.upstream(t, http.MethodGet, "vllm", "")
	require.False(t, now.Paused)
}
