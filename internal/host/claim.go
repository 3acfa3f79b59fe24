package host

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Claim describes a sandbox that a CreateSandbox is about to create.
type Claim struct {
	// id of the sandbox
	ID string

	// owner of its rollout; "": all clients are one
	Owner string
	Size  rollout.Resources

	// end of the wait; zero: a minute
	Until time.Time
}

// claim is the capacity that one CreateSandbox waits for, or has.
type claim struct {
	of        *Capacity
	id, owner string
	size      rollout.Resources
	granted   bool

	// claims that came later and were granted before
	overtaken int

	// when its activity returned to Temporal; zero: it waits here
	leftAt time.Time
}

// Claim waits until the host has capacity for a sandbox; its activity already has a slot. The caller calls
// release when the sandbox is listed or was not created.
//
// Claims are granted in order of arrival. A later one may overtake one that does not fit yet, up to maxOvertaken times.
//
// The error is a fault.Exhausted if the host is too small, is drained, or has no capacity in time, or if
// the owner has its share of the host. A nil Capacity grants all claims.
func (c *Capacity) Claim(ctx context.Context, r Claim) (release func(), err error) {
	if c == nil {
		return func() {}, nil
	}

	if most := c.total(); !r.Size.Within(most) {
		return nil, fault.New(fault.Exhausted, "sandbox %s asks for %s, more than this host has: %s",
			r.ID, inWords(r.Size), inWords(most))
	}

	mine := c.enqueue(r)
	release = func() { c.dequeue(mine) }

	until := time.Now().Add(longestStay)
	if !r.Until.IsZero() && r.Until.Before(until) {
		until = r.Until
	}

	for {
		released := c.account.waiter()

		fits, err := c.grant(ctx, mine)
		switch {
		case fits:
			return release, nil
		case err == nil && c.o.Drain.On():
			err = fault.New(fault.Exhausted, "this host is drained")
		case err == nil && !time.Now().Before(until):
			c.leave(mine, until.Equal(r.Until))

			return nil, fault.New(fault.Exhausted, "sandbox %s asks for %s, more than this host has left of %s",
				r.ID, inWords(r.Size), inWords(c.total()))
		}

		if err == nil {
			err = waitFor(ctx, released, min(fullPause, time.Until(until)))
		}

		if err != nil {
			release()
			return nil, err
		}
	}
}

// inWords lists the amounts of a sandbox, or the bounds of a host, which has none where a field is zero.
func inWords(r rollout.Resources) string {
	var all []string
	if r.CPU > 0 {
		all = append(all, fmt.Sprintf("%g cores", r.CPU))
	}

	if r.MemoryMiB > 0 {
		all = append(all, fmt.Sprintf("%d MiB of memory", r.MemoryMiB))
	}

	if r.DiskMiB > 0 {
		all = append(all, fmt.Sprintf("%d MiB of disk", r.DiskMiB))
	}

	if len(all) < 2 {
		return strings.Join(all, "")
	}

	return strings.Join(all[:len(all)-1], ", ") + " and " + all[len(all)-1]
}

// enqueue puts a claim at the end of the order, or where it was before its activity returned to Temporal.
func (c *Capacity) enqueue(r Claim) *claim {
	a := c.account
	a.mu.Lock()
	defer a.mu.Unlock()

	a.dropAway()

	for _, m := range a.claims {
		if m.of == c && m.id == r.ID && !m.leftAt.IsZero() {
			m.leftAt, m.owner, m.size = time.Time{}, r.Owner, r.Size
			return m
		}
	}

	mine := &claim{of: c, id: r.ID, owner: r.Owner, size: r.Size}
	a.claims = append(a.claims, mine)

	return mine
}

func (c *Capacity) dequeue(mine *claim) {
	a := c.account
	a.mu.Lock()
	defer a.mu.Unlock()

	if i := slices.Index(a.claims, mine); i >= 0 {
		a.claims = slices.Delete(a.claims, i, i+1)
		a.signal()
	}
}

// leave ends the wait of a claim. It keeps the place of one that was overtaken and will be back, so that it
// has its turn although its activity returns to Temporal now and then.
func (c *Capacity) leave(mine *claim, forGood bool) {
	c.account.mu.Lock()
	mine.leftAt = time.Now()
	stays := mine.overtaken > 0 && !forGood
	c.account.mu.Unlock()

	if !stays {
		c.dequeue(mine)
	}
}

// grant grants the claim if the host has capacity for it besides the living sandboxes and the claims that
// go first. A living sandbox fits.
func (c *Capacity) grant(ctx context.Context, mine *claim) (bool, error) {
	c.account.mu.Lock()
	defer c.account.mu.Unlock()

	l, err := c.account.ledger(ctx, c)
	if err != nil {
		return false, err
	}

	if slices.ContainsFunc(l.of[c].sandboxes, func(i driver.Info) bool { return i.ID == mine.id }) {
		mine.granted = true
		return true, nil
	}

	if c.o.Drain.On() {
		return false, nil
	}

	if err := c.checkShare(mine.owner, l.of[c].owners[mine.owner]); err != nil {
		return false, err
	}

	overtaken := l.reserve(mine)
	if !l.fits(c, mine.size) {
		return false, nil
	}

	mine.granted = true

	for _, m := range overtaken {
		m.overtaken++
	}

	return true, nil
}

// checkShare refuses a further sandbox of an owner that has its share of the backend's slots.
func (c *Capacity) checkShare(owner string, active int) error {
	if owner == "" || c.o.Share == 0 || c.o.Share >= 1 {
		return nil
	}

	if share := max(1, int(c.o.Share*float64(c.o.Slots))); active >= share {
		return fault.New(fault.Exhausted,
			"the rollouts of token %q have %d sandboxes on this host, their share of %d (worker.token_share)",
			owner, active, c.o.Slots)
	}

	return nil
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
