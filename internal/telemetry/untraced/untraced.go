// Package untraced keeps reads out of the collector: clients poll, and each poll would be a trace of its own.
package untraced

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// read is an attribute of spans of requests that are recognized as reads after their start.
var read = attribute.Bool("rolloutd.read", true)

// Context is ctx with a parent that is not sampled, so that no span is recorded below it.
func Context(ctx context.Context) context.Context {
	return trace.ContextWithSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1},
		SpanID:  trace.SpanID{1},
	}))
}

// Mark excludes the span of ctx, if any, from export, and returns Context(ctx).
func Mark(ctx context.Context) context.Context {
	trace.SpanFromContext(ctx).SetAttributes(read)
	return Context(ctx)
}

// Filter forwards the spans that are not marked.
func Filter(next sdktrace.SpanProcessor) sdktrace.SpanProcessor { return filter{next} }

type filter struct{ sdktrace.SpanProcessor }

// OnEnd implements sdktrace.SpanProcessor.
func (f filter) OnEnd(s sdktrace.ReadOnlySpan) {
	for _, a := range s.Attributes() {
		if a == read {
			return
		}
	}

	f.SpanProcessor.OnEnd(s)
}
