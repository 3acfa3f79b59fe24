package host

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox/driver"
)

// claim is the capacity that one CreateSandbox is about to use. Claims are in order of arrival.
type claim struct {
	id   string // of the sandbox
	size rollout.Resources
}

// Claim waits until the host has capacity for a sandbox of the size; its activity already has a slot. The caller calls release when the sandbox
// is listed or was not created. Claims are granted in order of arrival.
//
// The error is a fault.Exhausted if the host is too small, is drained, or has no capacity within a minute. A nil Capacity grants all claims.
func (c *Capacity) Claim(ctx context.Context, id string, size rollout.Resources) (release func(), err error) {
	if c == nil {
		return func() {}, nil
	}
	if !size.Within(c.o.Total) {
		return nil, fault.New(fault.Exhausted, "sandbox %s asks for %s, more than this host has: %s", id, inWords(size), inWords(c.o.Total))
	}
	mine := c.enqueue(id, size)
	release = func() { c.dequeue(mine) }
	for begun := time.Now(); ; {
		released := c.waiter()
		fits, err := c.fits(ctx, mine)
		switch {
		case fits:
			return release, nil
		case err == nil && c.o.Drain.On():
			err = fault.New(fault.Exhausted, "this host is drained")
		case err == nil && time.Since(begun) > longestStay:
			err = fault.New(fault.Exhausted, "sandbox %s asks for %s, more than this host has left of %s", id, inWords(size), inWords(c.o.Total))
		}
		if err == nil {
			err = waitFor(ctx, released, fullPause)
		}
		if err != nil {
			release()
			return nil, err
		}
	}
}

func inWords(r rollout.Resources) string {
	return fmt.Sprintf("%g cores, %d MiB of memory and %d MiB of disk", r.CPU, r.MemoryMiB, r.DiskMiB)
}

func (c *Capacity) enqueue(id string, size rollout.Resources) *claim {
	c.mu.Lock()
	defer c.mu.Unlock()
	mine := &claim{id: id, size: size}
	c.claims = append(c.claims, mine)
	return mine
}

func (c *Capacity) dequeue(mine *claim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := slices.Index(c.claims, mine); i >= 0 {
		c.claims = slices.Delete(c.claims, i, i+1)
		c.signal()
	}
}

// fits reports whether the host has capacity for the claim besides the living sandboxes and the earlier claims. A living sandbox fits.
func (c *Capacity) fits(ctx context.Context, mine *claim) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	living, err := c.list(ctx)
	if err != nil {
		return false, err
	}
	if slices.ContainsFunc(living, func(i driver.Info) bool { return i.ID == mine.id }) {
		return true, nil
	}
	if c.o.Drain.On() {
		return false, nil
	}
	_, used := c.used(living, c.claims[:slices.Index(c.claims, mine)+1])
	return used.Within(c.o.Total), nil
}

// waitFor waits for the signal, but no longer than d. The error is ctx's.
func waitFor(ctx context.Context, signal <-chan struct{}, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-signal:
	case <-timer.C:
	}
	return ctx.Err()
}
