package env

import (
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/rolloutd/rolloutd/envserver/internal/episodes"
	"github.com/rolloutd/rolloutd/envserver/internal/session"
	"github.com/rolloutd/rolloutd/envserver/internal/tools"
)

// Options configures an environment; all are required except Play, Registerer and MetricsOf.
type Options struct {
	Tools *tools.Table

	// runs interactive episodes; nil: the environment has the tools of the table
	Play     *episodes.Player
	Sessions session.Options

	// longest time of a step whose client sets none; 0 or negative: no bound
	StepTimeout time.Duration
	Registerer  prometheus.Registerer

	// shares the metrics of this environment; nil: it has its own
	MetricsOf *Env
	Tracer    trace.Tracer
	Logger    *slog.Logger
}

// Env resets, steps and calls tools in sessions, for every transport. It is safe for concurrent use.
type Env struct {
	Tools       *tools.Table
	Play        *episodes.Player
	Sessions    *session.Set
	Tracer      trace.Tracer
	metrics     *metrics
	log         *slog.Logger
	stepTimeout time.Duration
}

// New returns an environment and registers its metrics.
func New(o Options) (*Env, error) {
	e := &Env{
		Tools:       o.Tools,
		Play:        o.Play,
		Sessions:    session.NewSet(o.Sessions),
		Tracer:      o.Tracer,
		log:         o.Logger,
		stepTimeout: o.StepTimeout,
	}
	if o.MetricsOf != nil {
		e.metrics = o.MetricsOf.metrics
		e.metrics.addSessions(e.Sessions.Len)

		return e, nil
	}

	var err error

	e.metrics, err = newMetrics(o.Registerer, e.Sessions.Len)

	return e, err
}

// CountList counts a request for the list of tools.
func (e *Env) CountList() { e.metrics.listed() }
