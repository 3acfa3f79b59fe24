package gateway

import (
	"context"
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/rolloutd/rolloutd/internal/gateway/upstream"
	"github.com/rolloutd/rolloutd/internal/rollout"
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

// reporter owns the gateway's metrics. Label values are a closed set without data of rollouts; endpoint is
// rollout.Model.Label.
type reporter struct {
	calls    *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	tokens   *prometheus.CounterVec
	cached   *prometheus.CounterVec
	cost     *prometheus.CounterVec
	inFlight *prometheus.GaugeVec

	// by "ids", or the word why not
	continuation *prometheus.CounterVec

	// by rollout.EngineFault
	faults *prometheus.CounterVec

	// turns by what an audit found, and the differences of the latest audit
	audited    *prometheus.CounterVec
	difference *prometheus.GaugeVec

	// conversations by what the audit at their end found
	conversations *prometheus.CounterVec
	routes        prometheus.Gauge
}

func newReporter(reg prometheus.Registerer) *reporter {
	f, endpoint := promauto.With(reg), []string{"endpoint"}

	return &reporter{
		calls: f.NewCounterVec(prometheus.CounterOpts{
			Name: "rolloutd_gateway_calls_total", Help: "Model calls of agents by outcome.",
		}, []string{"endpoint", "outcome"}),
		continuation: f.NewCounterVec(prometheus.CounterOpts{
			Name: "rolloutd_gateway_continued_calls_total",
			Help: "Complete calls that continue a conversation, by ids or by messages for a reason (how).",
		}, []string{"endpoint", "how"}),
		faults: f.NewCounterVec(prometheus.CounterOpts{
			Name: "rolloutd_gateway_engine_faults_total",
			Help: "Replies with a sign of a fault of the engine; those that begin with engine_ are provably its own.",
		}, []string{"endpoint", "fault"}),
		audited: f.NewCounterVec(prometheus.CounterOpts{
			Name: "rolloutd_gateway_audited_turns_total",
			Help: "Turns that audits scored again by result: fits, marked or skipped.",
		}, []string{"endpoint", "result"}),
		conversations: f.NewCounterVec(prometheus.CounterOpts{
			Name: "rolloutd_gateway_audited_conversations_total",
			Help: "Conversations continued by ids whose last prompt was compared with the template's: fits, marked or skipped.",
		}, []string{"endpoint", "result"}),
		difference: f.NewGaugeVec(prometheus.GaugeOpts{
			Name: "rolloutd_gateway_audit_difference_nats",
			Help: "Recorded log probabilities less those of the latest audit: mean_abs, k1 or k3.",
		}, []string{"endpoint", "estimator"}),
		tokens: f.NewCounterVec(prometheus.CounterOpts{
			Name: "rolloutd_gateway_tokens_total", Help: "Tokens of whole replies as the endpoint counts them.",
		}, []string{"endpoint", "side"}),
		cached: f.NewCounterVec(prometheus.CounterOpts{
			Name: "rolloutd_gateway_cached_prompt_tokens_total",
			Help: "Prompt tokens of whole replies that the endpoint says it had in its cache; tokens_total has them too.",
		}, endpoint),
		cost: f.NewCounterVec(prometheus.CounterOpts{
			Name: "rolloutd_gateway_cost_dollars_total",
			Help: "Cost of model calls in US dollars, failed ones included, where the model's price is known.",
		}, endpoint),
		seconds: f.NewHistogramVec(prometheus.HistogramOpts{
			Name: "rolloutd_gateway_call_seconds", Help: "Time to a whole reply, upstream retries included.",
			Buckets: prometheus.ExponentialBuckets(0.05, 2, 14),
		}, endpoint),
		inFlight: f.NewGaugeVec(prometheus.GaugeOpts{
			Name: "rolloutd_gateway_calls_in_flight", Help: "Model calls being worked on.",
		}, endpoint),
		routes: f.NewGauge(prometheus.GaugeOpts{
			Name: "rolloutd_gateway_routes", Help: "Routes kept.",
		}),
	}
}

// countFaults begins the counts of faults of the configured endpoints at 0: the first one is an increase, too.
func (r *reporter) countFaults(endpoints []string) {
	for _, endpoint := range endpoints {
		for _, fault := range rollout.EngineFaults() {
			r.faults.WithLabelValues(endpoint, string(fault))
		}
	}
}

// beginAudits begins the counts of audits of the configured endpoints at 0. The differences are not known yet.
func (r *reporter) beginAudits(endpoints []string) {
	for _, endpoint := range endpoints {
		for _, result := range []string{auditFits, auditMarked, auditSkipped} {
			r.audited.WithLabelValues(endpoint, result)
			r.conversations.WithLabelValues(endpoint, result)
		}

		for _, estimator := range []string{"mean_abs", "k1", "k3"} {
			r.difference.WithLabelValues(endpoint, estimator).Set(math.NaN())
		}
	}
}

// began counts a call that is about to be made.
func (r *reporter) began(endpoint string) { r.inFlight.WithLabelValues(endpoint).Inc() }

// answered counts a call that is not made, since its answer is known.
func (r *reporter) answered(endpoint, outcome string) {
	r.calls.WithLabelValues(endpoint, outcome).Inc()
}

// settled counts a call that has ended.
func (r *reporter) settled(endpoint string, c *call, res *upstream.Result, ans answer) {
	r.inFlight.WithLabelValues(endpoint).Dec()

	used := res.Reply.Usage
	if used.CostUSD > 0 {
		r.cost.WithLabelValues(endpoint).Add(used.CostUSD)
	}

	if ans.kind != wholeReply {
		r.calls.WithLabelValues(endpoint, outcomeOf(res, ans)).Inc()
		return
	}

	r.calls.WithLabelValues(endpoint, outcomeWhole).Inc()
	r.seconds.WithLabelValues(endpoint).Observe(time.Since(c.began).Seconds())
	r.tokens.WithLabelValues(endpoint, "prompt").Add(float64(used.PromptTokens))
	r.tokens.WithLabelValues(endpoint, "completion").Add(float64(used.CompletionTokens))
	r.cached.WithLabelValues(endpoint).Add(float64(used.CachedPromptTokens))
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
			attribute.String("turn.kind", string(c.request.Kind)),
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
