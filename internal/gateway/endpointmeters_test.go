package gateway_test

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/gateway"
)

// The metrics name the endpoints of the configuration only, so that clients' addresses add no series, and say which
// of them fails or is paused.
func TestMetricsNameEndpoints(t *testing.T) {
	t.Parallel()

	reg := prometheus.NewRegistry()
	slow := newHanging(halfReply(), goodReply[len(halfReply()):])
	h := newHost(t, func(o *gateway.Options) {
		o.Registerer, o.Endpoints = reg, []string{"vllm", "openai"}
	})
	e := newEngine(t, answers(503, ""), answers(599, ""), slow.serve)

	foreign := h.route(e.URL)
	foreign.ID, foreign.SandboxID, foreign.RolloutID = "r2.1", "r2.1", "r2"
	h.open(t, foreign)

	route := h.route(e.URL)
	route.Model.Endpoint = "vllm"
	reply := startSend(t, h.open(t, route), "a", streamed)

	<-slow.begun

	failing := readMetrics(t, reg)
	require.InDelta(t, 2, failing[`endpoint_failed_tries{vllm}`], 0)
	require.InDelta(t, 1, failing[`calls_in_flight{vllm}`], 0)
	require.Contains(t, failing, `calls_queued{other}`)
	require.Zero(t, failing[`endpoint_failed_tries{openai}`])

	close(slow.release)
	require.Equal(t, 200, (<-reply).status)

	_, err := h.trainer.Pause(t.Context(), "vllm", time.Hour)
	require.NoError(t, err)

	got := readMetrics(t, reg)
	require.InDelta(t, 1, got[`upstream_tries_total{vllm}{503}`], 0)
	require.InDelta(t, 1, got[`upstream_tries_total{vllm}{5xx}`], 0)
	require.InDelta(t, 1, got[`calls_total{vllm}{whole}`], 0)
	require.Zero(t, got[`endpoint_failed_tries{vllm}`])
	require.InDelta(t, 1, got[`endpoint_paused{vllm}`], 0)
	require.Zero(t, got[`endpoint_paused{openai}`])
}
