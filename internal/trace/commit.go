package trace

import (
	"sync"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// syncInterval is the least time between the starts of two syncs. A sync costs as much CPU as the rest of a
// record: calls that end together share one, and a single call does not wait.
const syncInterval = 5 * time.Millisecond

// enough is the number of records that makes a sync worth its cost at once: with that many waiting callers,
// a longer wait collects no more, and costs a timer and thread switches.
const enough = 16

// committer makes concurrent writers share a sync: the first to wait syncs everything written so far, the
// others wait for that sync or the next one.
type committer struct {
	sync func() error

	// time of the next sync, unless there are enough records before; used by the leader only
	due time.Time

	mu      sync.Mutex
	written int64
	synced  int64

	// closed when there are enough records; nil: the leader does not wait for more
	full chan struct{}

	// closed at the end of the current sync; nil: none
	running chan struct{}

	// a failed sync: the state of the disk is unknown, so every later wait fails
	failed error
}

// wrote returns the number of a frame that was just written.
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

// join waits for the current sync. The lock is held at entry and return.
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
		c.failed = syncFailed(err)
	} else {
		c.synced = upTo
	}

	c.running = nil
	close(running)
}

// collect waits until the next sync is due or there are enough records. The lock is held at entry and return.
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

// broken returns why every wait fails; nil: none does.
func (c *committer) broken() error {
	c.mu.Lock()
	defer c.mu.Unlock()

	return c.failed
}

// fail makes every later wait fail, because of a failed sync elsewhere.
func (c *committer) fail(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()

	c.failed = syncFailed(err)

	return c.failed
}

// syncFailed does not wrap the error of a sync: a full disk, for which a writer waits, is none here, since room does not
// mend it.
func syncFailed(err error) error { return fault.New(fault.Internal, "sync trace: %v", err) }
