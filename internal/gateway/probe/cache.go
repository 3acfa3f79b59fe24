package probe

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Bounds of a Cache. Reports expire: an engine may be restarted with other options, and one that did not
// answer may answer soon.
const (
	keepFor = time.Hour
	retryIn = time.Minute
	maxKept = 1 << 10
)

// Cache holds the reports on endpoints by key. The zero value is empty; it is safe for concurrent use.
type Cache struct {
	mu      sync.Mutex
	entries map[string]*entry
}

type entry struct {
	// closed when report is set
	done   chan struct{}
	began  time.Time
	report rollout.EndpointReport

	// what was known when the probe began
	before rollout.EndpointReport
}

// stale reports whether to probe the endpoint again.
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

// Of returns the report on an endpoint. Without one it calls start with the probe, for start to run on a
// goroutine; start returns false if it cannot. Of waits for the report until ctx ends; then it returns what
// Known returns.
func (c *Cache) Of(
	ctx context.Context,
	key string,
	run func() rollout.EndpointReport,
	start func(func()) bool,
) rollout.EndpointReport {
	c.mu.Lock()

	e, ok := c.entries[key]
	if !ok || e.stale() {
		next := &entry{done: make(chan struct{}), began: time.Now()}
		if ok {
			next.before = e.latestReport()
		}

		e = next

		if !start(func() {
			e.report = run()
			close(e.done)
		}) {
			c.mu.Unlock()
			return e.before
		}

		c.storeEntry(key, e)
	}
	c.mu.Unlock()

	select {
	case <-e.done:
	case <-ctx.Done():
	}

	return e.latestReport()
}

// LatestReport returns the report on an endpoint, the expired one until the endpoint has answered a later probe;
// the zero value: there is none yet.
func (c *Cache) LatestReport(key string) rollout.EndpointReport {
	c.mu.Lock()
	e := c.entries[key]
	c.mu.Unlock()

	if e == nil {
		return rollout.EndpointReport{}
	}

	return e.latestReport()
}

// latestReport returns the report. A probe that runs or was not answered says nothing: to forget meanwhile that
// log probabilities are raw would let turns be trained on that must not be.
func (e *entry) latestReport() rollout.EndpointReport {
	select {
	case <-e.done:
	default:
		return e.before
	}

	r := e.report
	if r.CaptureLevel == "" && e.before.CaptureLevel != "" {
		return e.before
	}

	r.LogprobsMode = cmp.Or(r.LogprobsMode, e.before.LogprobsMode)

	return r
}

// storeEntry stores e. It removes an arbitrary endpoint if there are too many. c.mu is held.
func (c *Cache) storeEntry(key string, e *entry) {
	if c.entries == nil {
		c.entries = map[string]*entry{}
	}

	for other := range c.entries {
		if len(c.entries) < maxKept {
			break
		}

		delete(c.entries, other)
	}

	c.entries[key] = e
}
