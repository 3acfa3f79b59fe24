package upstream

import (
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/rolloutd/rolloutd/internal/input/membudget"
)

// meters are the metrics of requests to endpoints.
type meters struct {
	tries     *prometheus.CounterVec
	firstByte *prometheus.HistogramVec
	waited    *prometheus.HistogramVec
	starved   prometheus.Counter
}

// NewMeters registers the metrics of upstream requests.
func NewMeters(reg prometheus.Registerer, memory *membudget.Memory) *meters {
	f := promauto.With(reg)
	f.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "rolloutd_gateway_reply_memory_bytes", Help: "Shared memory used by replies in flight, in bytes.",
	}, func() float64 { return float64(memory.Used()) })

	return &meters{
		tries: f.NewCounterVec(prometheus.CounterOpts{
			Name: "rolloutd_gateway_upstream_tries_total",
			Help: "Requests made to model endpoints by HTTP status; none: no answer, broken: a reply that is not whole.",
		}, []string{"endpoint", "status"}),
		firstByte: f.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "rolloutd_gateway_first_byte_seconds",
			Help:    "Time from a request to a model endpoint to the first byte of its reply, which streams.",
			Buckets: prometheus.ExponentialBuckets(0.02, 2, 14),
		}, []string{"endpoint"}),
		starved: f.NewCounter(prometheus.CounterOpts{
			Name: "rolloutd_gateway_replies_given_up_total",
			Help: "Replies given up for lack of memory; their calls are retried.",
		}),
		waited: f.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "rolloutd_gateway_queued_seconds",
			Help:    "Time a call waited for admission to its model endpoint, all tries together.",
			Buckets: prometheus.ExponentialBuckets(0.01, 3, 10),
		}, []string{"endpoint"}),
	}
}

// tried counts a request to an endpoint.
func (m *meters) tried(endpoint string, began time.Time, res *Result) {
	m.tries.WithLabelValues(endpoint, statusLabel(res)).Inc()

	if !res.FirstByte.IsZero() {
		m.firstByte.WithLabelValues(endpoint).Observe(res.FirstByte.Sub(began).Seconds())
	}
}

// statusLabel is the status of an answer as a label. An endpoint can send any number, so that unusual ones are
// named by their class.
func statusLabel(res *Result) string {
	usual := []int{
		http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound,
		http.StatusRequestTimeout, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity,
		http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway,
		http.StatusServiceUnavailable, http.StatusGatewayTimeout,
	}

	switch class := res.Status / 100; {
	case res.Status == 0:
		return "none"
	case answered(res.Status) && res.Problem != nil:
		return "broken"
	case res.Status == http.StatusOK, slices.Contains(usual, res.Status):
		return strconv.Itoa(res.Status)
	case class >= 1 && class <= 5:
		return strconv.Itoa(class) + "xx"
	default:
		return "invalid"
	}
}
