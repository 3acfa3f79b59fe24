package gateway

import (
	"context"
	"time"

	"github.com/rolloutd/rolloutd/internal/clock"
	"github.com/rolloutd/rolloutd/internal/gateway/upstream"
)

const (
	minRedial = 50 * time.Millisecond
	maxRedial = 5 * time.Second
)

// attach serves the sandbox's model channel until ctx ends, also after the end of the rollout: the agent's
// last calls need their empty answers.
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
		_ = clock.Sleep(ctx, upstream.Jitter(pause))
		pause = min(2*pause, maxRedial)
	}
}

// onHost reports whether all calls come from the host. Such a route has no model channel.
func (r *route) onHost() bool { return r.SandboxID == "" }

func (r *route) serveOnce(ctx context.Context, d Dialer) error {
	defer r.setAttached(false)
	return d.ServeModel(ctx, r.SandboxID, r.api.of(r), func() { r.setAttached(true) })
}

func (r *route) setAttached(on bool) {
	r.mu.Lock()
	defer r.mu.Unlock()

	r.attached = on
	r.version.Note()

	if !on {
		r.epoch++
	}
}
