package upstream

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/rolloutd/rolloutd/internal/input/membudget"
)

// meters are the metrics of requests to endpoints.
type meters struct {
	tries   prometheus.Counter
	starved prometheus.Counter
	waited  prometheus.Histogram
}

// NewMeters registers the metrics of upstream requests.
func NewMeters(reg prometheus.Registerer, memory *membudget.Memory) *meters {
	f := promauto.With(reg)
	f.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "rolloutd_gateway_reply_memory_bytes", Help: "Shared memory used by replies in flight, in bytes.",
	}, func() float64 { return float64(memory.Held()) })

	return &meters{
		tries: f.NewCounter(prometheus.CounterOpts{
			Name: "rolloutd_gateway_upstream_tries_total", Help: "Requests made to model endpoints.",
		}),
		starved: f.NewCounter(prometheus.CounterOpts{
			Name: "rolloutd_gateway_replies_given_up_total",
			Help: "Replies given up for lack of memory; their calls are retried.",
		}),
		waited: f.NewHistogram(prometheus.HistogramOpts{
			Name:    "rolloutd_gateway_queued_seconds",
			Help:    "Time a call waited for admission to its model endpoint, all tries together.",
			Buckets: prometheus.ExponentialBuckets(0.01, 3, 10),
		}),
	}
}
