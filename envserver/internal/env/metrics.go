package env

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the edge's metrics. The sessions gauge reads the sets, so that it cannot drift.
type metrics struct {
	mu sync.Mutex

	// numbers of open sessions
	sets []func() int

	calls   *prometheus.CounterVec
	seconds *prometheus.HistogramVec
	refused prometheus.Counter
}

func newMetrics(r prometheus.Registerer, sessions func() int) (*metrics, error) {
	m := &metrics{
		sets: []func() int{sessions},
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rolloutd_envserver_tool_calls_total",
			Help: "Tool calls by tool and outcome (ok, or the kind of error); requests for the list of tools count as list_tools.",
		}, []string{"tool", "outcome"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "rolloutd_envserver_tool_call_seconds", Help: "Time from a tool call to its answer.",
			Buckets: []float64{.005, .02, .1, .5, 1, 5, 15, 30, 60, 120, 300, 600, 1200},
		}, []string{"tool"}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "rolloutd_envserver_sessions_refused_total", Help: "Sessions refused because all slots were taken.",
		}),
	}
	if r == nil {
		return m, nil
	}

	open := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "rolloutd_envserver_sessions", Help: "Open sessions, over all transports.",
	}, m.open)
	for _, c := range []prometheus.Collector{m.calls, m.seconds, m.refused, open} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}

	return m, nil
}

// addSessions counts the sessions of another environment.
func (m *metrics) addSessions(sessions func() int) {
	m.mu.Lock()
	defer m.mu.Unlock()

	m.sets = append(m.sets, sessions)
}

// open is the number of open sessions.
func (m *metrics) open() float64 {
	m.mu.Lock()
	defer m.mu.Unlock()

	n := 0
	for _, set := range m.sets {
		n += set()
	}

	return float64(n)
}

func (m *metrics) listed() { m.calls.WithLabelValues("list_tools", "ok").Inc() }

func (m *metrics) called(tool, outcome string, took time.Duration) {
	m.calls.WithLabelValues(tool, outcome).Inc()
	m.seconds.WithLabelValues(tool).Observe(took.Seconds())
}
