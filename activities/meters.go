package activities

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// meters are the metrics of rollouts and deliveries. A rollout is counted when its result is stored. It may be
// counted twice if the worker is killed right after.
type meters struct {
	rollouts   *prometheus.CounterVec
	rewards    *prometheus.HistogramVec
	seconds    *prometheus.HistogramVec
	phases     *prometheus.HistogramVec
	lost       *prometheus.CounterVec
	deliveries *prometheus.CounterVec
}

func newMeters(reg prometheus.Registerer) *meters {
	const fromSecond, doubling, toDay = 1, 2, 17

	f := promauto.With(reg)

	return &meters{
		rollouts: f.NewCounterVec(prometheus.CounterOpts{
			Name: "rolloutd_rollouts_total", Help: "Rollouts that have ended.",
		}, []string{"outcome", "agent", "backend", "endpoint", "task_set"}),
		rewards: f.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "rolloutd_rollout_reward",
			Help:    "Rewards of rollouts that have one. A rate of its sum is wrong if rewards may be negative.",
			Buckets: prometheus.LinearBuckets(0, 0.1, 11),
		}, []string{"agent", "endpoint", "task_set"}),
		seconds: f.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "rolloutd_rollout_seconds",
			Help:    "Time from the start of a rollout to its result, all attempts and waits together.",
			Buckets: prometheus.ExponentialBuckets(fromSecond, doubling, toDay),
		}, []string{"outcome"}),
		phases: f.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "rolloutd_phase_seconds",
			Help:    "Duration of the phases of rollouts that have ended; phase queued is the wait for a slot.",
			Buckets: append([]float64{0.01, 0.1}, prometheus.ExponentialBuckets(fromSecond, doubling, toDay)...),
		}, []string{"phase", "backend"}),
		lost: f.NewCounterVec(prometheus.CounterOpts{
			Name: "rolloutd_attempts_lost_total",
			Help: "Attempts of ended rollouts that infrastructure lost, by the phase and the kind of the error.",
		}, []string{"phase", "kind", "backend", "endpoint"}),
		deliveries: f.NewCounterVec(prometheus.CounterOpts{
			Name: "rolloutd_deliveries_total",
			Help: "Tries to deliver a group by their result: a state of a delivery, or error for a try that is repeated.",
		}, []string{"sink", "state"}),
	}
}

// rolloutLabels are the labels of a rollout. Each has few values: names of the configuration.
type rolloutLabels struct{ agent, backend, endpoint, taskSet string }

// labelsOf returns the labels of a rollout. A host that composes the result of a rollout for another one may not
// know its agent or backend.
func (a *Activities) labelsOf(in CollectInput) rolloutLabels {
	l := rolloutLabels{
		agent: in.Agent, backend: backendName(in.Target), endpoint: in.Endpoint, taskSet: in.TaskSet,
	}

	if _, err := a.o.Agents.Get(in.Agent); err != nil {
		l.agent = rollout.OtherLabel
	}

	if _, ok := a.o.Backends[l.backend]; !ok {
		l.backend = rollout.OtherLabel
	}

	return l
}

func (m *meters) rolloutEnded(l rolloutLabels, h Head) {
	m.rollouts.WithLabelValues(string(h.Outcome), l.agent, l.backend, l.endpoint, l.taskSet).Inc()
	m.seconds.WithLabelValues(string(h.Outcome)).Observe(h.EndedAt.Sub(h.StartedAt).Seconds())

	if h.Reward != nil {
		m.rewards.WithLabelValues(l.agent, l.endpoint, l.taskSet).Observe(*h.Reward)
	}

	for _, p := range h.Phases {
		// the phase of this activity has not ended
		if p.End != nil {
			m.phases.WithLabelValues(string(p.Phase), l.backend).Observe(p.End.Sub(p.Start).Seconds())
		}
	}

	for _, attempt := range h.Attempts {
		if attempt.Outcome == rollout.InfraFailed {
			m.lost.WithLabelValues(lastPhase(h, attempt.Number), attempt.ErrorKind, l.backend, l.endpoint).Inc()
		}
	}
}

// lastPhase is the last phase of an attempt before its artifacts were collected.
func lastPhase(h Head, attempt int) (last string) {
	for _, p := range h.Phases {
		if p.Attempt == attempt && p.Phase != rollout.PhaseCollecting && p.Phase != rollout.PhaseClosing {
			last = string(p.Phase)
		}
	}

	return last
}

// stateError is the label of a try that Temporal repeats.
const stateError = "error"

func (m *meters) delivered(sink string, d rollout.Delivery, err error) {
	state := string(d.State)
	if err != nil {
		state = stateError
	}
	// a client may name a sink that is not configured
	if fault.Is(err, fault.Invalid) {
		sink = rollout.OtherLabel
	}

	m.deliveries.WithLabelValues(sink, state).Inc()
}
