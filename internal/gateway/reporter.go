package gateway

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/rolloutd/rolloutd/internal/gateway/upstream"
	"github.com/rolloutd/rolloutd/internal/trace"
)

// Outcomes of calls: label values of the calls counter.
const (
	outcomeWhole    = "whole"
	outcomeRejected = "rejected"
	outcomeRefused  = "refused"
	outcomeFailed   = "failed"
	outcomeAborted  = "aborted"

	// made after the rollout's end or a spent budget
	outcomeEmpty = "empty"

	// answered from the record
	outcomeReplayed = "replayed"
	outcomeLost     = "unrecorded"
)

// reporter owns the gateway's metrics. Label values are a closed set without data of rollouts.
type reporter struct {
	calls *prometheus.CounterVec

	// of calls
	whole   prometheus.Counter
	seconds prometheus.Histogram

	// tokens
	prompted prometheus.Counter

	// tokens
	sampled  prometheus.Counter
	inFlight prometheus.Gauge
	routes   prometheus.Gauge
}

func newReporter(reg prometheus.Registerer) *reporter {
	f := promauto.With(reg)
	calls := f.NewCounterVec(prometheus.CounterOpts{
		Name: "rolloutd_gateway_calls_total", Help: "Model calls of agents by outcome.",
	}, []string{"outcome"})
	tokens := f.NewCounterVec(prometheus.CounterOpts{
		Name: "rolloutd_gateway_tokens_total", Help: "Tokens of whole replies as the endpoint counts them.",
	}, []string{"side"})

	return &reporter{
		calls: calls, whole: calls.WithLabelValues(outcomeWhole),
		prompted: tokens.WithLabelValues("prompt"), sampled: tokens.WithLabelValues("completion"),
		seconds: f.NewHistogram(prometheus.HistogramOpts{
			Name: "rolloutd_gateway_call_seconds", Help: "Time to a whole reply, upstream retries included.",
			Buckets: prometheus.ExponentialBuckets(0.05, 2, 14),
		}),
		inFlight: f.NewGauge(prometheus.GaugeOpts{
			Name: "rolloutd_gateway_calls_in_flight", Help: "Model calls being worked on.",
		}),
		routes: f.NewGauge(prometheus.GaugeOpts{
			Name: "rolloutd_gateway_routes", Help: "Routes kept.",
		}),
	}
}

func (r *reporter) settled(c *call, res *upstream.Result, ans answer) {
	r.inFlight.Dec()

	if ans.kind != whole {
		r.calls.WithLabelValues(outcomeOf(res, ans)).Inc()
		return
	}

	r.whole.Inc()
	r.seconds.Observe(time.Since(c.began).Seconds())
	r.prompted.Add(float64(res.Reply.Usage.PromptTokens))
	r.sampled.Add(float64(res.Reply.Usage.CompletionTokens))
}

func outcomeOf(res *upstream.Result, ans answer) string {
	switch {
	case ans.failure != nil:
		return outcomeLost
	case res.Problem.Class == upstream.Rejected:
		return outcomeRejected
	case res.Problem.Class == upstream.Refused:
		return outcomeRefused
	case res.Problem.Class == upstream.Failed:
		return outcomeFailed
	default:
		return outcomeAborted
	}
}

func (r *route) startSpan(ctx context.Context, c *call) (context.Context, oteltrace.Span) {
	ctx, span := r.tracer.Start(ctx, "model call", oteltrace.WithSpanKind(oteltrace.SpanKindClient))
	if span.IsRecording() {
		span.SetAttributes(
			attribute.String("rollout.id", r.RolloutID),
			attribute.Int("rollout.attempt", r.Attempt),
			attribute.Int("turn", c.turn),
			attribute.String("turn.kind", string(c.ask.Kind)),
			attribute.String("gen_ai.request.model", r.Model.Name),
		)
	}

	return ctx, span
}

func endSpan(span oteltrace.Span, rec *trace.Record, ans answer) {
	defer span.End()

	if !span.IsRecording() {
		return
	}

	span.SetAttributes(
		attribute.Int("http.response.status_code", rec.Status),
		attribute.Int("upstream.tries", rec.Tries),
		attribute.String("gen_ai.response.finish_reason", rec.FinishReason),
		attribute.Int64("gen_ai.usage.input_tokens", rec.Usage.PromptTokens),
		attribute.Int64("gen_ai.usage.output_tokens", rec.Usage.CompletionTokens),
	)

	if rec.Broken != "" || ans.failure != nil {
		span.SetStatus(codes.Error, rec.Broken)
	}
}
