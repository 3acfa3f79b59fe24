package host

import (
	"maps"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	// returnRate is how many waiting rollouts a second may be retried on this host for one endpoint, and
	// returnBurst how many at once. A retry costs Temporal about ten milliseconds, and a thousand rollouts
	// may wait for an endpoint that is full all day.
	returnRate  = 5
	returnBurst = 20
)

// returnPace spreads the retries of waiting rollouts. Each endpoint has a limiter of its own, so that one
// does not delay another.
type returnPace struct {
	mu sync.Mutex

	// by endpoint; full limiters are removed
	of map[string]*rate.Limiter
}

// next returns after how long the next retry may run.
func (p *returnPace) next(upstream string) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	// equal to a new one
	maps.DeleteFunc(p.of, func(_ string, l *rate.Limiter) bool { return l.Tokens() >= returnBurst })

	if p.of[upstream] == nil {
		p.of[upstream] = rate.NewLimiter(returnRate, returnBurst)
	}

	return p.of[upstream].Reserve().Delay()
}
