package activities

import (
	"maps"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	// returnRate is how many rollouts a second may come back to this host to wait for one endpoint, and returnBurst how many at
	// once: it costs Temporal some ten milliseconds each, and a thousand may wait for an endpoint that is full all day long. More
	// sandboxes than that no host begins anyway.
	returnRate  = 5
	returnBurst = 20
)

// pace spreads the returns of the rollouts that wait, for each endpoint apart: one for which many wait must not delay the others.
type pace struct {
	mu sync.Mutex
	of map[string]*rate.Limiter // of endpoints to which there were returns of late
}

// next is how long from now the next return may come.
func (p *pace) next(upstream string) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.of, func(_ string, l *rate.Limiter) bool { return l.Tokens() >= returnBurst }) // as good as new
	if p.of[upstream] == nil {
		p.of[upstream] = rate.NewLimiter(returnRate, returnBurst)
	}
	return p.of[upstream].Reserve().Delay()
}
