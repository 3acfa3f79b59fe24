package retention

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/rolloutd/rolloutd/internal/clock"
	"github.com/rolloutd/rolloutd/internal/store"
)

// Service deletes what policies allow, at its start and at intervals. Each server of a deployment may run one: what
// another has deleted is not there.
type Service struct {
	store    *store.Store
	policies []Policy
	every    time.Duration
	log      *slog.Logger
	report   *reporter
}

// NewService returns a service that applies the policies in turn. Without policies it deletes nothing.
func NewService(
	s *store.Store,
	policies []Policy,
	every time.Duration,
	log *slog.Logger,
	reg prometheus.Registerer,
) *Service {
	return &Service{store: s, policies: policies, every: every, log: log, report: newReporter(reg)}
}

// Run applies the policies until ctx ends. A failure is logged and counted, and the next run goes on where it ended.
func (s *Service) Run(ctx context.Context) error {
	for {
		if err := s.Apply(ctx, time.Now()); err != nil && ctx.Err() == nil {
			s.report.failures.Inc()
			s.log.WarnContext(ctx, "old rollouts were not deleted", "error", err)
		}

		if err := clock.Sleep(ctx, s.every); err != nil {
			return err
		}
	}
}

// Apply applies each policy once.
func (s *Service) Apply(ctx context.Context, now time.Time) error {
	for i, policy := range s.policies {
		p := Pruner{Store: s.store, Policy: policy, Now: now}

		plan, err := p.Plan(ctx)
		if err != nil {
			return fmt.Errorf("retention.rules[%d]: %w", i, err)
		}

		deleted, err := p.Prune(ctx, plan)
		s.report.deleted.Add(float64(deleted))

		if deleted+len(plan.Records) > 0 {
			s.log.InfoContext(ctx, "deleted old rollouts",
				"rule", i, "rollouts", deleted, "records", len(plan.Records), "bytes", plan.Freed())
		}

		if err != nil {
			return fmt.Errorf("retention.rules[%d]: %w", i, err)
		}
	}

	s.report.succeeded.SetToCurrentTime()

	return nil
}

// reporter owns the metrics of a service.
type reporter struct {
	deleted, failures prometheus.Counter
	succeeded         prometheus.Gauge
}

func newReporter(reg prometheus.Registerer) *reporter {
	f := promauto.With(reg)

	return &reporter{
		deleted: f.NewCounter(prometheus.CounterOpts{
			Name: "rolloutd_retention_deleted_rollouts_total",
			Help: "Rollouts that the rules of the configuration deleted from the store.",
		}),
		failures: f.NewCounter(prometheus.CounterOpts{
			Name: "rolloutd_retention_failures_total",
			Help: "Runs of the rules of the configuration that failed; the next one goes on.",
		}),
		succeeded: f.NewGauge(prometheus.GaugeOpts{
			Name: "rolloutd_retention_succeeded_seconds",
			Help: "Unix time of the last run of the rules of the configuration without a failure; 0: there was none.",
		}),
	}
}
