package upstream

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// meters are the instruments of requests to endpoints.
type meters struct {
	tries  prometheus.Counter
	waited prometheus.Histogram
}

// NewMeters registers the metrics of upstream requests.
func NewMeters(reg prometheus.Registerer) *meters {
	f := promauto.With(reg)
	return &meters{
		tries: f.NewCounter(prometheus.CounterOpts{
			Name: "rolloutd_gateway_upstream_tries_total", Help: "Requests made to model endpoints.",
		}),
		waited: f.NewHistogram(prometheus.HistogramOpts{
			Name: "rolloutd_gateway_queued_seconds", Help: "Time a call waited until its model endpoint might be asked, all tries together.",
			Buckets: prometheus.ExponentialBuckets(0.01, 3, 10),
		}),
	}
}
