package limits

import (
	"context"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
)

// Admission limits the requests to one upstream: concurrency and rate, routes in turn, and none while it is
// paused or has asked for no requests.
type Admission struct {
	bounds Bounds

	// requests that wait
	queued prometheus.Gauge
	log    *slog.Logger

	// routes that joined; guarded by the registry's lock
	routes int

	mu      sync.Mutex
	queue   queue
	running map[*pass]struct{}

	// nil: no bound
	rate *rate.Limiter

	// closed when no request is in flight; nil unless a drain waits for it
	idle chan struct{}

	// end of the pause, in case the trainer that asked for it is gone
	pauseEnd time.Time

	// start of the latest pause
	pauseBegan time.Time

	// the endpoint asked for no requests until then
	heldUntil time.Time

	// the time closed by either
	shut pauseSpan

	// consecutive failed tries
	failing int

	// time of the latest failed try
	failed time.Time

	// error of the latest failed try, for people
	why string

	// nil: connections can be made, or none was tried
	outage *Outage

	// signs of faults of the engine, by word
	faults map[string]int

	// unix time in nanoseconds at which a reply last grew
	heard atomic.Int64

	// when a rollout last asked whether it may begin
	polledAt time.Time

	// name that a trainer gave to the weights; "": none
	weights string

	// admits when the time limit of a waiting request is over
	wake *time.Timer
}

func newAdmission(b Bounds, queued prometheus.Gauge, log *slog.Logger) *Admission {
	a := &Admission{
		bounds:  b,
		queued:  queued,
		log:     log,
		queue:   queue{of: map[string][]*pass{}},
		running: map[*pass]struct{}{},
	}
	if b.Rate > 0 {
		a.rate = rate.NewLimiter(rate.Limit(b.Rate), b.burst())
	}

	a.wake = time.AfterFunc(time.Hour, a.admitNext)
	a.wake.Stop()

	return a
}

// Enter returns when a request of the route may begin; the error is why ctx ended first. The caller must
// call Leave after the request.
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

// enter admits a request if none waits and it may begin; otherwise it queues the request.
func (a *Admission) enter(route string, p *pass) (in bool) {
	a.mu.Lock()
	defer a.mu.Unlock()

	if a.queue.empty() && a.free() {
		a.admitOne(p)
		return true
	}

	p.ready = make(chan struct{})
	a.queue.add(route, p)
	a.queued.Inc()

	return false
}

// admit admits all requests that may begin. a.mu is held.
func (a *Admission) admit() {
	for !a.queue.empty() && a.free() {
		p := a.queue.next()
		a.admitOne(p)
		a.queued.Dec()
		close(p.ready)
	}
}

// admitOne begins a request. a.mu is held.
func (a *Admission) admitOne(p *pass) {
	p.began = time.Now()
	a.running[p] = struct{}{}
}

// free reports whether a request may begin, and takes its tokens from the rate. If only time prevents it,
// it sets the timer.
func (a *Admission) free() bool {
	if a.bounds.Calls > 0 && len(a.running) >= a.bounds.Calls {
		// the next request that leaves admits again
		return false
	}

	now := time.Now()

	closedUntil := a.pauseEnd
	if a.heldUntil.After(closedUntil) {
		closedUntil = a.heldUntil
	}

	if wait := closedUntil.Sub(now); wait > 0 {
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

func (a *Admission) admitNext() {
	a.mu.Lock()
	defer a.mu.Unlock()

	a.admit()
}

// giveUp removes a request from the queue, or ends it if it was admitted at the same moment.
func (a *Admission) giveUp(route string, p *pass) {
	a.mu.Lock()
	in := !a.queue.remove(route, p)
	a.mu.Unlock()

	if in {
		a.Leave(p)
		return
	}

	p.cancel(nil)
	a.queued.Dec()
}

// Leave ends a request that was admitted.
func (a *Admission) Leave(p *pass) {
	p.cancel(nil)
	a.mu.Lock()
	defer a.mu.Unlock()

	delete(a.running, p)

	if len(a.running) == 0 && a.idle != nil {
		close(a.idle)
		a.idle = nil
	}

	a.admit()
}

// Bounds are the limits of an upstream; zero: no limit.
type Bounds struct {
	// concurrent requests
	Calls int

	// requests per second
	Rate float64

	// requests that may begin at once after a quiet time; 0: those of one second
	Burst int

	// waiting calls above which new rollouts wait
	Queue int
}

func (b Bounds) burst() int {
	if b.Burst > 0 {
		return b.Burst
	}

	return max(1, int(math.Ceil(b.Rate)))
}
