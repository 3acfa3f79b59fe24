package gateway

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Outcomes of calls, as the calls counter has them.
const (
	outcomeWhole    = "whole"
	outcomeRejected = "rejected"
	outcomeRefused  = "refused"
	outcomeFailed   = "failed"
	outcomeAborted  = "aborted"
	outcomeEmpty    = "empty"    // asked after the rollout's end or budget
	outcomeReplayed = "replayed" // answered from the record
	outcomeLost     = "unrecorded"
)

// reporter owns the gateway's instruments. Labels are a closed set: nothing of a rollout is in them.
type reporter struct {
	calls    *prometheus.CounterVec
	seconds  prometheus.Histogram
	tokens   *prometheus.CounterVec
	tries    prometheus.Counter
	inFlight prometheus.Gauge
	queued   prometheus.Gauge
	waited   prometheus.Histogram
	routes   prometheus.Gauge
}

func newReporter(reg prometheus.Registerer) *reporter {
	f := promauto.With(reg)
	return &reporter{
		calls: f.NewCounterVec(prometheus.CounterOpts{
			Name: "rolloutd_gateway_calls_total", Help: "Model calls of agents by outcome.",
		}, []string{"outcome"}),
		seconds: f.NewHistogram(prometheus.HistogramOpts{
			Name: "rolloutd_gateway_call_seconds", Help: "Time to a whole reply, upstream retries included.",
			Buckets: prometheus.ExponentialBuckets(0.05, 2, 14),
		}),
		tokens: f.NewCounterVec(prometheus.CounterOpts{
			Name: "rolloutd_gateway_tokens_total", Help: "Tokens of whole replies as the endpoint counts them.",
		}, []string{"side"}),
		tries: f.NewCounter(prometheus.CounterOpts{
			Name: "rolloutd_gateway_upstream_tries_total", Help: "Requests made to model endpoints.",
		}),
		inFlight: f.NewGauge(prometheus.GaugeOpts{
			Name: "rolloutd_gateway_calls_in_flight", Help: "Model calls being worked on.",
		}),
		queued: f.NewGauge(prometheus.GaugeOpts{
			Name: "rolloutd_gateway_calls_queued", Help: "Requests that wait until their model endpoint may be asked.",
		}),
		waited: f.NewHistogram(prometheus.HistogramOpts{
			Name: "rolloutd_gateway_queued_seconds", Help: "Time a call waited until its model endpoint might be asked, all tries together.",
			Buckets: prometheus.ExponentialBuckets(0.01, 3, 10),
		}),
		routes: f.NewGauge(prometheus.GaugeOpts{
			Name: "rolloutd_gateway_routes", Help: "Routes kept.",
		}),
	}
}

func (r *reporter) settled(c *call, res *result, ans answer) {
	r.inFlight.Dec()
	r.calls.WithLabelValues(outcomeOf(res, ans)).Inc()
	if ans.kind != whole {
		return
	}
	r.seconds.Observe(time.Since(c.began).Seconds())
	r.tokens.WithLabelValues("prompt").Add(float64(res.reply.Usage.PromptTokens))
	r.tokens.WithLabelValues("completion").Add(float64(res.reply.Usage.CompletionTokens))
}

func outcomeOf(res *result, ans answer) string {
	switch {
	case ans.kind == whole:
		return outcomeWhole
	case ans.failure != nil:
		return outcomeLost
	case res.problem.class == rejected:
		return outcomeRejected
	case res.problem.class == refused:
		return outcomeRefused
	case res.problem.class == failed:
		return outcomeFailed
	default:
		return outcomeAborted
	}
}
