package host

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"go.temporal.io/sdk/worker"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

const (
	// fullPause is the time between two looks at a full host, unless a slot is released before.
	fullPause = 500 * time.Millisecond
	// listTimeout bounds one look.
	listTimeout = 10 * time.Second
	// A backend whose list has failed after slowList or longer is not asked by the others for silentTime: each look
	// holds the lock. It asks itself at each look, since a failed one is a failed try of a rollout.
	slowList   = time.Second
	silentTime = 30 * time.Second
)

// Lister lists the sandboxes of this host; *sandbox.Backend is one.
type Lister interface {
	List(ctx context.Context) ([]driver.Info, error)
}

// Capacity bounds the sandboxes of one backend on this host, by number and by what they use together. A
// verifier's sandbox takes the place of its agent's, whose processes are dead and whose files alone still
// take memory.
//
// It is the slot supplier of CreateSandbox: a worker polls the create queue only with a slot in hand, so
// queued rollouts wait in Temporal, where any host can take them. A slot stands for a sandbox of default
// size. What the rollout really asks for is known when its activity runs; Claim then waits until the host
// can hold that.
//
// It counts the sandboxes that live, not those this process made, so a restarted worker counts the
// sandboxes that ran on. It is safe for concurrent use.
type Capacity struct {
	o CapacityOptions

	// the account, which has the lock
	account *Account

	// slots in use
	used int

	// the last list of its sandboxes
	listed []driver.Info

	// the others do not ask it until then
	silentUntil time.Time
}

var _ worker.SlotSupplier = (*Capacity)(nil)

// CapacityOptions describe a host's room for the sandboxes of one backend.
type CapacityOptions struct {
	// sandboxes at once
	Slots int

	// bounds all sandboxes together; zero fields are unbounded
	Total rollout.Resources

	// size of a sandbox whose rollout asks for nothing
	Default rollout.Resources

	// part of Slots that the rollouts of one owner may take; 0: all
	Share float64

	// account of the machine, with other backends; nil: the backend has an account of its own
	Account   *Account
	Sandboxes Lister

	// while it is on, there is no room for further sandboxes; nil: never
	Drain *Drain

	// nil: silent
	Logger *slog.Logger
}

// NewCapacity makes the capacity of a host that has no slot in use.
func NewCapacity(o CapacityOptions) *Capacity {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}

	c := &Capacity{o: o, account: o.Account}
	if c.account == nil {
		c.account = NewAccount(rollout.Resources{})
	}

	c.account.mu.Lock()
	defer c.account.mu.Unlock()

	c.account.members = append(c.account.members, c)

	return c
}

// shares reports whether other backends use the same machine.
func (c *Capacity) shares() bool { return c.o.Account != nil }

// total is the bound of all sandboxes of the backend.
func (c *Capacity) total() rollout.Resources {
	all := c.o.Total
	if most := c.account.total.MemoryMiB; most > 0 && (all.MemoryMiB == 0 || most < all.MemoryMiB) {
		all.MemoryMiB = most
	}

	return all
}

// Tuner makes the tuner of a create queue's worker. Its activity slots are the capacity; the rest are the
// SDK's defaults.
func (c *Capacity) Tuner() (worker.WorkerTuner, error) {
	// the SDK's own defaults
	const many = 1000

	plain, err := worker.NewFixedSizeSlotSupplier(many)
	if err != nil {
		return nil, err
	}

	return worker.NewCompositeTuner(worker.CompositeTunerOptions{
		WorkflowSlotSupplier: plain, ActivitySlotSupplier: c, LocalActivitySlotSupplier: plain,
		NexusSlotSupplier: plain, SessionActivitySlotSupplier: plain,
	})
}

// ReserveSlot waits for a free slot, or until ctx ends.
func (c *Capacity) ReserveSlot(ctx context.Context, _ worker.SlotReservationInfo) (*worker.SlotPermit, error) {
	for {
		released := c.account.waiter()
		if c.takeSlot(ctx) {
			return &worker.SlotPermit{}, nil
		}

		if err := waitFor(ctx, released, fullPause); err != nil {
			return nil, err
		}
	}
}

// TryReserveSlot takes a slot for an activity that the server may return with a workflow task; nil when there is none.
func (c *Capacity) TryReserveSlot(worker.SlotReservationInfo) *worker.SlotPermit {
	// the SDK gives none
	ctx, cancel := context.WithTimeout(context.Background(), listTimeout)
	defer cancel()

	if !c.takeSlot(ctx) {
		return nil
	}

	return &worker.SlotPermit{}
}

// MarkSlotUsed does nothing: a slot counts from its reservation on.
func (c *Capacity) MarkSlotUsed(worker.SlotMarkUsedInfo) {}

// ReleaseSlot releases a slot. The lister lists its sandbox from now on.
func (c *Capacity) ReleaseSlot(worker.SlotReleaseInfo) {
	c.account.mu.Lock()
	defer c.account.mu.Unlock()

	c.used--
	c.account.signal()
}

// MaxSlots is how many sandboxes the host holds at once.
func (c *Capacity) MaxSlots() int { return c.o.Slots }

// takeSlot takes a slot if one is free. The lock is held during the listing, so that two callers cannot take the same
// slot.
func (c *Capacity) takeSlot(ctx context.Context) bool {
	c.account.mu.Lock()
	defer c.account.mu.Unlock()

	if c.used >= c.o.Slots || c.o.Drain.On() {
		return false
	}

	l, err := c.account.ledger(ctx, c)
	if err != nil {
		c.o.Logger.WarnContext(ctx, "no slots while sandboxes cannot be listed", "error", err)
		return false
	}

	granted, waiting := c.claimed()
	// slots of pollers that have no activity yet
	idle := c.used - granted - waiting
	if l.of[c].n+waiting+idle+1 > c.o.Slots {
		return false
	}

	// A claim that does not fit yet keeps no room from others until it was overtaken too often.
	l.reserve(nil)

	if !l.fits(c, c.o.Default.Times(idle+1)) {
		return false
	}

	c.used++

	return true
}

// claimed counts the claims of activities that run. The caller holds the lock.
func (c *Capacity) claimed() (granted, waiting int) {
	for _, m := range c.account.claims {
		switch {
		case m.of != c || !m.leftAt.IsZero():
		case m.granted:
			granted++
		default:
			waiting++
		}
	}

	return granted, waiting
}

// sandboxes returns the living sandboxes of the backend. Unless they must be current, those of the last list serve where
// the backend does not answer, or did so slowly. The lock is held.
func (c *Capacity) sandboxes(ctx context.Context, current bool) ([]driver.Info, error) {
	if !current && c.isSilent() {
		return c.listed, nil
	}

	now, err := c.list(ctx)
	switch {
	case err == nil:
		c.listed = now
	case current:
		return nil, err
	default:
		c.o.Logger.WarnContext(ctx, "the room of another backend is that of its last list", "error", err)
	}

	return c.listed, nil
}

// list lists the sandboxes of the backend. The lock is held.
func (c *Capacity) list(ctx context.Context) ([]driver.Info, error) {
	started := time.Now()

	bounded, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()

	living, err := c.o.Sandboxes.List(bounded)

	switch {
	case err == nil:
		c.silentUntil = time.Time{}
	case time.Since(started) >= slowList:
		c.silentUntil = time.Now().Add(silentTime)
	}

	return living, err
}

// isSilent reports whether the others do without a new list of the backend. The lock is held.
func (c *Capacity) isSilent() bool { return time.Now().Before(c.silentUntil) }

// sizeOf is the size of the sandbox, or the default if it is unknown.
func (c *Capacity) sizeOf(info driver.Info) rollout.Resources {
	d := c.o.Default

	return rollout.Resources{
		CPU:       cmp.Or(info.CPU, d.CPU),
		MemoryMiB: cmp.Or(info.MemoryMiB, d.MemoryMiB),
		DiskMiB:   cmp.Or(info.HomeMiB, d.DiskMiB),
	}
}

// Spare returns how many sandboxes of default size fit beside those of rollouts: the living ones, and those
// that are about to be made. Warm sandboxes are not counted.
func (c *Capacity) Spare(ctx context.Context) (int, error) {
	if c.o.Drain.On() {
		return 0, nil
	}

	c.account.mu.Lock()
	defer c.account.mu.Unlock()

	l, err := c.account.ledger(ctx, c)
	if err != nil {
		return 0, err
	}

	n := c.addWaiting(l)

	spare := 0
	for n+spare < c.o.Slots && l.fits(c, c.o.Default.Times(spare+1)) {
		spare++
	}

	return spare, nil
}

// addWaiting adds all waiting claims to the use of the account, and returns the number of the backend's sandboxes.
func (c *Capacity) addWaiting(l *ledger) int {
	for _, m := range c.account.claims {
		if !m.granted && m.leftAt.IsZero() {
			l.add(m.of, m.owner, m.size)
		}
	}

	return l.of[c].n
}
