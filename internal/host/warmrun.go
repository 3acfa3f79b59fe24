package host

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/rolloutd/rolloutd/internal/clock"
)

const (
	// warmLook is the time between two looks at the pool when no rollout comes; it renews leases, so it is
	// well below DefaultLease.
	warmLook = 15 * time.Second
	// settleTime is left to the rollout that woke the pool before a sandbox is started or destroyed: its
	// own start needs the processors more.
	settleTime = 200 * time.Millisecond
	// idleTime is how long the pool is kept full while no rollout comes.
	idleTime = 30 * time.Minute
	// warmTimeout bounds one start. It is long because warm starts have low priority on a busy host, and
	// canceling one wastes its CPU time.
	warmTimeout = 10 * time.Minute
	// firstRetry, doubled with each failure up to lastRetry, is the pause after a start that failed.
	firstRetry = 15 * time.Second
	lastRetry  = 10 * time.Minute
	// closeTime bounds the destruction of the pool when the worker stops.
	closeTime = 4 * time.Second
)

// Run keeps the pool full until ctx ends; then it destroys the sandboxes that wait.
func (p *WarmPool) Run(ctx context.Context) {
	p.adopt(ctx)

	tick := time.NewTicker(warmLook)
	defer tick.Stop()

	retry := retryPause{}
	for {
		p.maintain(ctx, &retry)

		if p.o.Size == 0 {
			// those of an earlier worker are gone
			return
		}

		select {
		case <-ctx.Done():
			p.close(ctx)
			return
		case <-p.wake:
			// maintain notices an end of ctx
			_ = clock.Sleep(ctx, settleTime)
		case <-tick.C:
			p.check(ctx)
		}
	}
}

// adopt takes the sandboxes of an earlier worker that are ready, and drops the others.
func (p *WarmPool) adopt(ctx context.Context) {
	living, err := p.o.Sandboxes.ListWarm(ctx)
	if err != nil {
		p.log.WarnContext(ctx, "warm sandboxes of an earlier worker are left to their leases", "error", err)
	}

	for id, key := range living {
		if ready, err := p.o.Sandboxes.Ready(ctx, id, key); err == nil && ready {
			p.push(warmSandbox{id: id, key: key})
		} else {
			p.markForRemoval(id)
		}
	}
}

// check renews the leases of the ready sandboxes, and drops those that died.
func (p *WarmPool) check(ctx context.Context) {
	dead := map[string]bool{}

	for _, w := range p.snapshot() {
		if ready, err := p.o.Sandboxes.Ready(ctx, w.id, w.key); (err != nil || !ready) && ctx.Err() == nil {
			p.log.WarnContext(ctx, "warm sandbox is not ready", "sandbox", w.id, "error", err)
			dead[w.id] = true
		}
	}

	p.discard(func(w warmSandbox) bool { return dead[w.id] })
}

// maintain starts and drops sandboxes until the pool has the wanted ones.
func (p *WarmPool) maintain(ctx context.Context, retry *retryPause) {
	for ctx.Err() == nil {
		spare, err := p.o.Room.Spare(ctx)
		if err != nil {
			return
		}

		a, key, n := p.wanted(spare)
		if key != "" {
			p.discard(func(w warmSandbox) bool { return w.key != key })
		}

		p.shrink(n)
		p.collect(ctx)

		if key == "" || len(p.snapshot()) >= n || !retry.over() || !p.idle(ctx) {
			return
		}

		if err := p.start(ctx, key, a); err != nil {
			p.log.WarnContext(ctx, "warm sandbox not started", "agent", a.Name, "error", err)
			retry.failed()

			return
		}

		retry.reset()
	}
}

// idle waits until no agent is starting, but no longer than until the next look at the pool.
func (p *WarmPool) idle(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, warmLook)
	defer cancel()

	return p.o.Starts.Idle(ctx) == nil
}

// start makes one sandbox ready.
func (p *WarmPool) start(ctx context.Context, key string, a WarmAgent) error {
	starting, cancel := context.WithTimeout(ctx, warmTimeout)
	defer cancel()

	p.setStop(cancel)

	id := "warm-" + uuid.NewString()
	err := p.o.Sandboxes.Start(starting, id, a)
	p.setStop(nil)

	if err != nil {
		p.markForRemoval(id)
		p.collect(context.WithoutCancel(ctx))

		return err
	}

	p.push(warmSandbox{id: id, key: key})

	return nil
}

func (p *WarmPool) setStop(stop context.CancelFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()

	p.stop = stop
}

// close destroys the ready sandboxes and empties the pool.
func (p *WarmPool) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
	defer cancel()

	p.shrink(0)
	p.collect(ctx)
}

// retryPause spaces the starts after one that failed. The zero value allows a start.
type retryPause struct {
	length time.Duration
	until  time.Time
}

func (r *retryPause) over() bool { return !time.Now().Before(r.until) }

func (r *retryPause) reset() { *r = retryPause{} }

func (r *retryPause) failed() {
	r.length = min(max(2*r.length, firstRetry), lastRetry)
	r.until = time.Now().Add(r.length)
}
