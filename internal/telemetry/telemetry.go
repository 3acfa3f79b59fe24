// Package telemetry sets up metrics and traces of a process: a Prometheus registry for rolloutd's and
// Temporal's instruments, and an OTLP exporter of spans if a collector is configured. Without a collector
// spans cost nothing.
package telemetry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel"
	promexporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.temporal.io/sdk/client"
	temporalotel "go.temporal.io/sdk/contrib/opentelemetry"
)

// Options of a process's telemetry.
type Options struct {
	// service.name
	Service string

	// service.version
	Version string

	// base URL of an OTLP/HTTP collector; empty: no spans
	Endpoint string
	// OnError receives errors of the exporters; nil: they are dropped.
	OnError func(error)
}

// Telemetry has the registry and providers of a process.
type Telemetry struct {
	registry *prometheus.Registry
	meters   *sdkmetric.MeterProvider

	// nil without a collector
	tracers *sdktrace.TracerProvider
	onError func(error)
}

// New sets telemetry up. It does not connect, so that rollouts run while a collector is down.
func New(ctx context.Context, o Options) (*Telemetry, error) {
	t := &Telemetry{registry: prometheus.NewRegistry(), onError: o.OnError}
	if t.onError == nil {
		t.onError = func(error) {}
	}

	t.registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		buildInfo(o.Version),
	)

	res, err := identity(ctx, o)
	if err != nil {
		return nil, err
	}

	reader, err := promexporter.New(promexporter.WithRegisterer(t.registry), promexporter.WithoutScopeInfo())
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}

	t.meters = sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader), sdkmetric.WithResource(res))
	if o.Endpoint != "" {
		if t.tracers, err = newTracers(ctx, o.Endpoint, res); err != nil {
			return nil, err
		}
	}

	return t, nil
}

// buildInfo is a metric that names the build of the process.
func buildInfo(version string) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name:        "rolloutd_build_info",
		Help:        "Always 1; its labels are the build of this process.",
		ConstLabels: prometheus.Labels{"version": version, "go": runtime.Version()},
	}, func() float64 { return 1 })
}

// Install makes these the global providers of otel. Call it once, at the start of the process.
func (t *Telemetry) Install() {
	otel.SetErrorHandler(otel.ErrorHandlerFunc(t.onError))
	otel.SetTextMapPropagator(
		propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{}),
	)
	otel.SetMeterProvider(t.meters)

	if t.tracers != nil {
		otel.SetTracerProvider(t.tracers)
	}
}

// Registry is where instruments register. A nil Telemetry has none: its instruments count and are not exported.
func (t *Telemetry) Registry() prometheus.Registerer {
	if t == nil {
		return nil
	}

	return t.registry
}

// Handler serves the metrics.
func (t *Telemetry) Handler() http.Handler {
	return promhttp.HandlerFor(t.registry, promhttp.HandlerOpts{})
}

// Temporal returns a handler that adds the metrics of Temporal clients and workers to the registry.
func (t *Telemetry) Temporal() client.MetricsHandler {
	return temporalotel.NewMetricsHandler(temporalotel.MetricsHandlerOptions{
		Meter: t.meters.Meter("temporal-sdk-go"), UseMonotonicCounters: true,
		OnError: t.onError, // the default is to panic
	})
}

// Shutdown exports the remaining spans.
func (t *Telemetry) Shutdown(ctx context.Context) error {
	err := t.meters.Shutdown(ctx)
	if t.tracers != nil {
		err = errors.Join(err, t.tracers.Shutdown(ctx))
	}

	return err
}
