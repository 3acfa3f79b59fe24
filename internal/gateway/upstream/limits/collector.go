package limits

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// collector reads the state of the configured endpoints when metrics are read.
type collector struct{ registry *Registry }

// Describe implements prometheus.Collector.
func (c collector) Describe(out chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{failingDesc(), pausedDesc(), unreachableDesc()} {
		out <- desc
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(out chan<- prometheus.Metric) {
	for _, name := range c.registry.endpoints {
		h := c.registry.healthOf(name)

		for desc, value := range map[*prometheus.Desc]float64{
			failingDesc(): h.failing, pausedDesc(): h.paused, unreachableDesc(): h.unreachable,
		} {
			out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, name)
		}
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

func unreachableDesc() *prometheus.Desc {
	return prometheus.NewDesc(
		"rolloutd_gateway_endpoint_unreachable_since_seconds",
		"Unix time since which no connection to a model endpoint can be made; 0: one was made, or nothing uses it.",
		[]string{"endpoint"}, nil,
	)
}

// health is the state of an endpoint as its metrics have it.
type health struct{ failing, paused, unreachable float64 }

// healthOf returns the state of an endpoint. One that no route uses has no admission: all is 0.
func (g *Registry) healthOf(name string) (h health) {
	g.mu.Lock()
	a, used := g.admissions[name]
	g.mu.Unlock()

	if !used {
		return h
	}

	a.mu.Lock()
	defer a.mu.Unlock()

	h.failing = float64(a.failing)
	if time.Now().Before(a.pauseEnd) {
		h.paused = 1
	}

	if a.outage != nil {
		h.unreachable = float64(a.outage.Since.UnixMilli()) / 1000
	}

	return h
}
