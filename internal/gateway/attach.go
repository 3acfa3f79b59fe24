package gateway

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	// settle is when a connection counts as made: ServeModel tells only of a failure, and a local one fails sooner.
	settle = 20 * time.Millisecond

	minRedial = 50 * time.Millisecond
	maxRedial = 5 * time.Second
)

// attach keeps the sandbox's model channel served until ctx ends. It serves on after the rollout has ended: the agent's
// last calls want their empty answers.
func (r *route) attach(ctx context.Context, d Dialer) {
	pause := minRedial
	for ctx.Err() == nil {
		began := time.Now()
		err := r.serveOnce(ctx, d)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > maxRedial {
			pause = minRedial
		}
		r.log.Info("model channel broke", "error", err, "redial_in", pause)
		sleep(ctx, jitter(pause))
		pause = min(2*pause, maxRedial)
	}
}

func (r *route) serveOnce(ctx context.Context, d Dialer) error {
	settled := time.AfterFunc(settle, func() { r.setAttached(true) })
	defer r.setAttached(false)
	defer settled.Stop()
	return d.ServeModel(ctx, r.SandboxID, agentHandler(r))
}

func (r *route) setAttached(on bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.attached = on
	r.version.note()
	if !on {
		r.epoch++
	}
}

// jitter takes up to half off, so that what broke together does not come back together.
func jitter(d time.Duration) time.Duration { return d - rand.N(d/2+1) }

// sleep returns after d, or when ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
