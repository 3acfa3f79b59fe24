package gateway_test

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/rolloutd/rolloutd/internal/gateway"
)

func TestCallsAreMeasured(t *testing.T) {
	t.Parallel()

	reg, spans := prometheus.NewRegistry(), tracetest.NewSpanRecorder()
	h := newHost(t, func(o *gateway.Options) {
		o.Registerer = reg
		o.TracerProvider = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	})
	e := newEngine(t, answers(500, ""), says(goodReply), answers(400, "no"))
	url := h.open(t, h.route(e.URL))
	send(t.Context(), url, "a", streamed)
	send(t.Context(), url, "a", streamed)
	send(t.Context(), url, "b", streamed)
	require.NoError(t, h.client.End(t.Context(), "r1.1", "x"))
	send(t.Context(), url, "c", streamed)
	require.Equal(t, map[string]float64{
		`calls_total{other}{empty}`:         1,
		`calls_total{other}{rejected}`:      1,
		`calls_total{other}{replayed}`:      1,
		`calls_total{other}{whole}`:         1,
		`calls_in_flight{other}`:            0,
		`calls_queued{other}`:               0,
		`queued_seconds{other}`:             2,
		`first_byte_seconds{other}`:         1,
		`replies_given_up_total`:            0,
		`reply_memory_bytes`:                0,
		`tokens_total{other}{completion}`:   2,
		`tokens_total{other}{prompt}`:       3,
		`cached_prompt_tokens_total{other}`: 0,
		`upstream_tries_total{other}{200}`:  1,
		`upstream_tries_total{other}{400}`:  1,
		`upstream_tries_total{other}{500}`:  1,
		`routes`:                            1,
		`call_seconds{other}`:               1,
	}, readMetrics(t, reg))

	ended := spans.Ended()
	require.Len(t, ended, 2, "one for each call that went upstream")
	require.Contains(t, e.requests()[0].header.Get("Traceparent"), ended[0].SpanContext().TraceID().String())
}

// A model call belongs to the trace of the request that opened its route, and passes this trace on to the
// endpoint. Opening the route again from another span does not change the route.
func TestCallsBelongToTheTraceOfTheirRoute(t *testing.T) {
	t.Parallel()

	spans := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	h := newHost(t, func(o *gateway.Options) { o.TracerProvider = provider })
	e := newEngine(t, says(goodReply))
	ctx, activity := provider.Tracer("activities").Start(t.Context(), "StartProxy")
	route := h.route(e.URL)
	require.NoError(t, h.client.Open(ctx, route))
	require.NoError(t, h.client.Open(t.Context(), route))
	send(t.Context(), h.open(t, route), "a", streamed)
	require.Contains(t, e.requests()[0].header.Get("Traceparent"), activity.SpanContext().TraceID().String())
	require.Equal(t, activity.SpanContext().SpanID(), spans.Ended()[0].Parent().SpanID())
}

// readMetrics reads all instruments by their short names. For a histogram it returns the count.
func readMetrics(t *testing.T, reg *prometheus.Registry) map[string]float64 {
	t.Helper()

	families, err := reg.Gather()
	require.NoError(t, err)

	out := map[string]float64{}

	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := strings.TrimPrefix(f.GetName(), "rolloutd_gateway_")
			for _, l := range m.GetLabel() {
				name += "{" + l.GetValue() + "}"
			}

			out[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}

	return out
}
