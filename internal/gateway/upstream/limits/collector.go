package limits

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// collector reads the state of the configured endpoints when metrics are read.
type collector struct{ registry *Registry }

// Describe implements prometheus.Collector.
func (c collector) Describe(out chan<- *prometheus.Desc) {
	out <- failingDesc()

	out <- pausedDesc()
}

// Collect implements prometheus.Collector.
func (c collector) Collect(out chan<- prometheus.Metric) {
	for _, name := range c.registry.endpoints {
		failing, paused := c.registry.healthOf(name)
		out <- prometheus.MustNewConstMetric(failingDesc(), prometheus.GaugeValue, float64(failing), name)

		out <- prometheus.MustNewConstMetric(pausedDesc(), prometheus.GaugeValue, paused, name)
	}
}

func failingDesc() *prometheus.Desc {
	return prometheus.NewDesc(
		"rolloutd_gateway_endpoint_failed_tries",
		"Consecutive tries that a model endpoint failed; 0: it answered the last one, or nothing uses it.",
		[]string{"endpoint"}, nil,
	)
}

func pausedDesc() *prometheus.Desc {
	return prometheus.NewDesc(
		"rolloutd_gateway_endpoint_paused",
		"1 while a trainer pauses the calls to a model endpoint.",
		[]string{"endpoint"}, nil,
	)
}

// healthOf returns the number of consecutive failed tries of an endpoint, and 1 during a pause. An endpoint that no
// route uses has no admission: it has neither.
func (g *Registry) healthOf(name string) (failing int, paused float64) {
	g.mu.Lock()
	a, used := g.admissions[name]
	g.mu.Unlock()

	if !used {
		return 0, 0
	}

	a.mu.Lock()
	defer a.mu.Unlock()

	if time.Now().Before(a.paused) {
		paused = 1
	}

	return a.failing, paused
}
