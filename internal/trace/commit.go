package trace

import (
	"sync"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// syncInterval is the least time from the beginning of one sync to that of the next. A sync costs the processor as much as the rest
// of a record does: where many calls end at once they share one, and a call by itself does not wait.
const syncInterval = 5 * time.Millisecond

// enough is how many records make a sync worth its cost at once: where as many callers as a load has wait, waiting for the interval brings no
// more of them, and costs a timer and the threads' sleep.
const enough = 16

// committer lets all writers that wait at the same time share one sync: the first to wait syncs for all that has been
// written by then, the others wait for that or the next one.
type committer struct {
	sync func() error
	due  time.Time // when the next sync may begin, unless there are enough records for one; the leader's alone

	mu      sync.Mutex
	written int64
	synced  int64
	full    chan struct{} // closed once there are enough records; nil: the leader does not wait for more
	running chan struct{} // closed when the sync under way is over; nil when there is none
	failed  error         // a failed sync: what is on disk is unknown, so every later wait fails
}

// wrote numbers a frame that was just written.
func (c *committer) wrote() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.written++
	if c.full != nil && c.written-c.synced >= enough {
		close(c.full)
		c.full = nil
	}
	return c.written
}

// wait returns when frame n is on disk.
func (c *committer) wait(n int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.synced < n && c.failed == nil {
		if c.running != nil {
			c.join()
		} else {
			c.lead()
		}
	}
	return c.failed
}

// join waits for the sync under way. The lock is held at entry and return.
func (c *committer) join() {
	running := c.running
	c.mu.Unlock()
	<-running
	c.mu.Lock()
}

// lead syncs. The lock is held at entry and return.
func (c *committer) lead() {
	running := make(chan struct{})
	c.running = running
	c.collect()
	c.due = time.Now().Add(syncInterval)
	upTo := c.written
	c.mu.Unlock()
	err := c.sync()
	c.mu.Lock()
	if err != nil {
		c.failed = fault.Wrap(fault.Internal, err, "sync trace")
	} else {
		c.synced = upTo
	}
	c.running = nil
	close(running)
}

// collect waits until the next sync is due or there are enough records for one. The lock is held at entry and return.
func (c *committer) collect() {
	wait := time.Until(c.due)
	if wait <= 0 || c.written-c.synced >= enough {
		return
	}
	full := make(chan struct{})
	c.full = full
	c.mu.Unlock()
	due := time.NewTimer(wait)
	select {
	case <-full:
	case <-due.C:
	}
	due.Stop()
	c.mu.Lock()
	c.full = nil
}

// broken is why every wait fails; nil: it does not.
func (c *committer) broken() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed
}

// fail has every later wait fail, because of a sync that was made elsewhere.
func (c *committer) fail(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed = fault.Wrap(fault.Internal, err, "sync trace")
	return c.failed
}
