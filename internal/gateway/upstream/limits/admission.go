package limits

import (
	"context"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
)

// Admission lets the requests to one upstream begin: so many at once, so many a second, routes taking turns, and none while
// it is paused or has asked for no calls.
type Admission struct {
	bounds Bounds
	queued prometheus.Gauge // requests that wait
	log    *slog.Logger
	routes int // that have it; the registry's lock guards it

	mu       sync.Mutex
	queue    queue
	running  map[*pass]struct{}
	rate     *rate.Limiter // nil: no bound
	idle     chan struct{} // closed when no request runs; nil unless a drain waits for that
	paused   time.Time     // the pause ends by itself then, in case the trainer that asked for it is gone
	pausedAt time.Time     // when the latest pause began
	held     time.Time     // until then the endpoint asked for no calls
	shut     shut          // by both
	failing  int           // tries in a row that failed
	failed   time.Time     // when the last of them did
	why      string        // what came of the last of them, for people
	weights  string        // the name that a trainer gave them; "": none did
	wake     *time.Timer   // looks again when time alone lets a request begin
}

func newAdmission(b Bounds, queued prometheus.Gauge, log *slog.Logger) *Admission {
	a := &Admission{bounds: b, queued: queued, log: log, queue: queue{of: map[string][]*pass{}}, running: map[*pass]struct{}{}}
	if b.Rate > 0 {
		a.rate = rate.NewLimiter(rate.Limit(b.Rate), b.burst())
	}
	a.wake = time.AfterFunc(time.Hour, a.look)
	a.wake.Stop()
	return a
}

// Enter returns when a request of the route may begin; the error is why ctx ended first. Who has entered must leave.
func (a *Admission) Enter(ctx context.Context, route string) (*pass, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	p := newPass(ctx)
	if a.enter(route, p) {
		return p, nil
	}
	select {
	case <-p.ready:
		return p, nil
	case <-ctx.Done():
		a.giveUp(route, p)
		return nil, context.Cause(ctx)
	}
}

// enter lets a request in where none waits and it may begin; otherwise it puts the request in the queue.
func (a *Admission) enter(route string, p *pass) (in bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.queue.empty() && a.free() {
		a.running[p] = struct{}{}
		return true
	}
	p.ready = make(chan struct{})
	a.queue.add(route, p)
	a.queued.Inc()
	return false
}

// admit lets in all that may begin. a.mu is held.
func (a *Admission) admit() {
	for !a.queue.empty() && a.free() {
		p := a.queue.next()
		a.running[p] = struct{}{}
		a.queued.Dec()
		close(p.ready)
	}
}

// free says whether a request may begin, and takes what it costs. Where time alone stands against it, the timer is set.
func (a *Admission) free() bool {
	if a.bounds.Calls > 0 && len(a.running) >= a.bounds.Calls {
		return false // the next request that leaves admits again
	}
	now := time.Now()
	shut := a.paused
	if a.held.After(shut) {
		shut = a.held
	}
	if wait := shut.Sub(now); wait > 0 {
		a.wake.Reset(wait)
		return false
	}
	if a.rate == nil || a.rate.AllowN(now, 1) {
		return true
	}
	next := a.rate.ReserveN(now, 1)
	a.wake.Reset(max(next.DelayFrom(now), time.Millisecond))
	next.CancelAt(now)
	return false
}

func (a *Admission) look() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.admit()
}

// giveUp takes a request out of the queue, or ends it where it was admitted at the same moment.
func (a *Admission) giveUp(route string, p *pass) {
	a.mu.Lock()
	in := !a.queue.remove(route, p)
	a.mu.Unlock()
	if in {
		a.Leave(p)
		return
	}
	p.end(nil)
	a.queued.Dec()
}

// Leave says that a request which had entered is over.
func (a *Admission) Leave(p *pass) {
	p.end(nil)
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.running, p)
	if len(a.running) == 0 && a.idle != nil {
		close(a.idle)
		a.idle = nil
	}
	a.admit()
}

// Bounds are what an upstream is asked at most; a zero field sets none.
type Bounds struct {
	Calls int     // requests at once
	Rate  float64 // requests a second
	Burst int     // requests that may come at once after a quiet time; 0: one second's
	Queue int     // more calls than this waiting: new rollouts wait, too
}

func (b Bounds) burst() int {
	if b.Burst > 0 {
		return b.Burst
	}
	return max(1, int(math.Ceil(b.Rate)))
}
