package proxy

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/rolloutd/rolloutd/internal/trace"
)

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
