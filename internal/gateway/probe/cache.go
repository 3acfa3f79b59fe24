package probe

import (
	"context"
	"sync"
	"time"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Bounds of a Cache. An engine may be started again with other options, and one that gave no answer may give one soon.
const (
	keepFor = time.Hour
	retryIn = time.Minute
	maxKept = 1 << 10
)

// Cache keeps the reports on endpoints by key. The zero value is empty; it is safe for concurrent use.
type Cache struct {
	mu   sync.Mutex
	kept map[string]*entry
}

type entry struct {
	done   chan struct{} // closed when report is there
	began  time.Time
	report rollout.EndpointReport
}

// stale says whether the endpoint is to be probed again.
func (e *entry) stale() bool {
	select {
	case <-e.done:
	default:
		return false
	}
	if e.report.CaptureLevel == "" {
		return time.Since(e.began) > retryIn
	}
	return time.Since(e.began) > keepFor
}

// Of returns the report on an endpoint. Where there is none, start is called with the probe, which it is to run on a goroutine; start
// returns false where it cannot. Of waits until the report is there or ctx ends; without it the report is the zero value.
func (c *Cache) Of(ctx context.Context, key string, run func() rollout.EndpointReport, start func(func()) bool) rollout.EndpointReport {
	c.mu.Lock()
	e, ok := c.kept[key]
	if !ok || e.stale() {
		e = &entry{done: make(chan struct{}), began: time.Now()}
		if !start(func() {
			e.report = run()
			close(e.done)
		}) {
			c.mu.Unlock()
			return rollout.EndpointReport{}
		}
		c.keep(key, e)
	}
	c.mu.Unlock()
	select {
	case <-e.done:
	case <-ctx.Done():
	}
	return e.known()
}

// Known is the report on an endpoint where it is there.
func (c *Cache) Known(key string) rollout.EndpointReport {
	c.mu.Lock()
	e := c.kept[key]
	c.mu.Unlock()
	if e == nil {
		return rollout.EndpointReport{}
	}
	return e.known()
}

// known is the report where it is there.
func (e *entry) known() rollout.EndpointReport {
	select {
	case <-e.done:
		return e.report
	default:
		return rollout.EndpointReport{}
	}
}

// keep forgets any other endpoint where there are too many. c.mu is held.
func (c *Cache) keep(key string, e *entry) {
	if c.kept == nil {
		c.kept = map[string]*entry{}
	}
	for other := range c.kept {
		if len(c.kept) < maxKept {
			break
		}
		delete(c.kept, other)
	}
	c.kept[key] = e
}
