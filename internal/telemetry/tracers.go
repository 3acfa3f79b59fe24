package telemetry

import (
	"context"
	"fmt"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/rolloutd/rolloutd/internal/telemetry/untraced"
)

// identity returns the resource of spans and metrics.
func identity(ctx context.Context, o Options) (*resource.Resource, error) {
	res, err := resource.New(ctx, resource.WithHost(), resource.WithProcessPID(), resource.WithAttributes(
		attribute.String("service.name", o.Service), attribute.String("service.version", o.Version)))
	if err != nil {
		return nil, fmt.Errorf("telemetry resource: %w", err)
	}

	return res, nil
}

// newTracers exports spans to a collector in the background, except those of reads. It keeps the sampling
// decision of a parent span.
func newTracers(ctx context.Context, endpoint string, res *resource.Resource) (*sdktrace.TracerProvider, error) {
	exporter, err := otlptracehttp.New(
		ctx,
		otlptracehttp.WithEndpointURL(strings.TrimSuffix(endpoint, "/")+"/v1/traces"),
	)
	if err != nil {
		return nil, fmt.Errorf("traces to %s: %w", endpoint, err)
	}

	return sdktrace.NewTracerProvider(
		sdktrace.WithSpanProcessor(untraced.Filter(sdktrace.NewBatchSpanProcessor(exporter))),
		sdktrace.WithResource(res),
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.AlwaysSample())),
	), nil
}
