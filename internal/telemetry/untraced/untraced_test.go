package untraced_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/rolloutd/rolloutd/internal/telemetry/untraced"
)

// A read has no spans, even if it is marked as a read after its first span has begun. Other requests keep theirs.
func TestReadsHaveNoSpans(t *testing.T) {
	t.Parallel()

	spans := tracetest.NewSpanRecorder()
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(untraced.Filter(spans)), sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.AlwaysSample()))).
		Tracer("test")

	_, below := tracer.Start(untraced.Context(t.Context()), "below a read")
	below.End()

	ctx, request := tracer.Start(t.Context(), "read")
	_, below = tracer.Start(untraced.Mark(ctx), "below a marked one")
	below.End()
	request.End()

	ctx, request = tracer.Start(t.Context(), "write")
	_, below = tracer.Start(ctx, "below a write")
	below.End()
	request.End()

	var names []string
	for _, s := range spans.Ended() {
		names = append(names, s.Name())
	}

	require.Equal(t, []string{"below a write", "write"}, names)
}
