package upstream

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/rolloutd/rolloutd/internal/intake"
)

// meters are the instruments of requests to endpoints.
type meters struct {
	tries   prometheus.Counter
	starved prometheus.Counter
	waited  prometheus.Histogram
}

// NewMeters registers the metrics of upstream requests.
func NewMeters(reg prometheus.Registerer, memory *intake.Memory) *meters {
	f := promauto.With(reg)
	f.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "rolloutd_gateway_reply_memory_bytes", Help: "Memory that replies under way hold of what they share.",
	}, func() float64 { return float64(memory.Held()) })
	return &meters{
		tries: f.NewCounter(prometheus.CounterOpts{
			Name: "rolloutd_gateway_upstream_tries_total", Help: "Requests made to model endpoints.",
		}),
		starved: f.NewCounter(prometheus.CounterOpts{
			Name: "rolloutd_gateway_replies_given_up_total", Help: "Replies given up since there was no memory for them; their calls are made again.",
		}),
		waited: f.NewHistogram(prometheus.HistogramOpts{
			Name: "rolloutd_gateway_queued_seconds", Help: "Time a call waited until its model endpoint might be asked, all tries together.",
			Buckets: prometheus.ExponentialBuckets(0.01, 3, 10),
		}),
	}
}
