package host

import (
	"context"
	"slices"
	"time"
)

// demand is what rollouts wanted of the pool lately.
type demand struct {
	key   string
	agent WarmAgent
	last  time.Time
	// rival is another key that was asked for since. Asked for twice in a row it takes the place of key, so
	// that a mix of jobs does not replace the pool's sandboxes with each rollout.
	rival string
}

// recordRequest records the kind of warm sandbox that a rollout requests.
func (p *WarmPool) recordRequest(key string, a WarmAgent) {
	p.mu.Lock()
	defer p.mu.Unlock()

	p.demand.last = time.Now()
	switch {
	case p.demand.agent.Name == "" || key == p.demand.key || key == p.demand.rival:
		p.demand.key, p.demand.agent, p.demand.rival = key, a, ""
	default:
		p.demand.rival = key
	}
}

// wanted is what to start, and how many of it at most. With no key, nothing is started, and so many are kept that wait.
func (p *WarmPool) wanted(spare int) (a WarmAgent, key string, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()

	if time.Since(p.demand.last) > idleTime {
		return WarmAgent{}, "", 0
	}

	return p.demand.agent, p.demand.key, min(p.o.Size, spare)
}

func (p *WarmPool) notify() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

func (p *WarmPool) pop(key string) (warmSandbox, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()

	i := slices.IndexFunc(p.ready, func(w warmSandbox) bool { return w.key == key })
	if i < 0 {
		return warmSandbox{}, false
	}

	w := p.ready[i]
	p.ready = slices.Delete(p.ready, i, i+1)
	p.waiting.Set(float64(len(p.ready)))

	return w, true
}

func (p *WarmPool) push(w warmSandbox) {
	p.mu.Lock()
	defer p.mu.Unlock()

	p.ready = append(p.ready, w)
	p.waiting.Set(float64(len(p.ready)))
}

// markForRemoval marks a sandbox for destruction by collect.
func (p *WarmPool) markForRemoval(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()

	p.garbage = append(p.garbage, id)
}

// hasSandboxes reports whether a sandbox is ready, is being started or is to be destroyed.
func (p *WarmPool) hasSandboxes() bool {
	p.mu.Lock()
	defer p.mu.Unlock()

	return len(p.ready)+len(p.garbage) > 0 || p.stop != nil
}

// shrink drops all but n sandboxes: first the one that is starting, then the oldest.
func (p *WarmPool) shrink(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()

	if p.stop != nil {
		if len(p.ready)+1 > n {
			p.stop()
		} else {
			n--
		}
	}

	for len(p.ready) > max(n, 0) {
		p.garbage, p.ready = append(p.garbage, p.ready[0].id), p.ready[1:]
	}

	p.waiting.Set(float64(len(p.ready)))
}

// discard drops the ready sandboxes for which f is true.
func (p *WarmPool) discard(f func(warmSandbox) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()

	p.ready = slices.DeleteFunc(p.ready, func(w warmSandbox) bool {
		gone := f(w)
		if gone {
			p.garbage = append(p.garbage, w.id)
		}

		return gone
	})
	p.waiting.Set(float64(len(p.ready)))
}

// collect destroys the dropped sandboxes. A failure is retried at the next look.
func (p *WarmPool) collect(ctx context.Context) {
	p.mu.Lock()
	ids := p.garbage
	p.garbage = nil
	p.mu.Unlock()

	for _, id := range ids {
		if err := p.o.Sandboxes.Destroy(ctx, id); err != nil {
			p.log.WarnContext(ctx, "warm sandbox not destroyed", "sandbox", id, "error", err)
			p.markForRemoval(id)
		}
	}
}

// snapshot is the ready sandboxes.
func (p *WarmPool) snapshot() []warmSandbox {
	p.mu.Lock()
	defer p.mu.Unlock()

	return slices.Clone(p.ready)
}
