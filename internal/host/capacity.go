package host

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"go.temporal.io/sdk/worker"

	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox/driver"
)

const (
	// fullPause is the time between two looks at a full host, unless a slot is released before.
	fullPause = 500 * time.Millisecond
	// listTimeout bounds one look.
	listTimeout = 10 * time.Second
)

// Lister lists the sandboxes of this host; *sandbox.Backend is one.
type Lister interface {
	List(ctx context.Context) ([]driver.Info, error)
}

// Capacity bounds the sandboxes of one backend on this host, by number and by what they use together.
//
// It is the slot supplier of CreateSandbox: a worker polls the create queue only with a slot in hand, so queued rollouts wait in
// Temporal, where any host can take them. A slot stands for a sandbox of default size. What the rollout really asks for is known when
// its activity runs; Claim then waits until the host can hold that.
//
// It counts the sandboxes that live, not those this process made, so a restarted worker counts the sandboxes that ran on. It is safe
// for concurrent use.
type Capacity struct {
	o CapacityOptions

	mu     sync.Mutex
	held   int // slots in use
	claims []*claim
	// released is closed, and replaced, when a slot is released.
	released chan struct{}
}

var _ worker.SlotSupplier = (*Capacity)(nil)

// CapacityOptions describe a host's room for the sandboxes of one backend.
type CapacityOptions struct {
	Slots     int               // sandboxes at once
	Total     rollout.Resources // of all sandboxes together; zero fields are unbounded
	Default   rollout.Resources // of a sandbox whose rollout asks for nothing
	Sandboxes Lister
	Drain     *Drain       // while it is on, there is no room for further sandboxes; nil: never
	Logger    *slog.Logger // nil: silent
}

// NewCapacity makes the capacity of a host that has no slot in use.
func NewCapacity(o CapacityOptions) *Capacity {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Capacity{o: o, released: make(chan struct{})}
}

// Tuner makes the tuner of a create queue's worker. Its activity slots are the capacity; the rest are the SDK's defaults.
func (c *Capacity) Tuner() (worker.WorkerTuner, error) {
	const many = 1000 // the SDK's own defaults
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
		released := c.waiter()
		if c.take(ctx) {
			return &worker.SlotPermit{}, nil
		}
		if err := waitFor(ctx, released, fullPause); err != nil {
			return nil, err
		}
	}
}

// TryReserveSlot takes a slot for an activity that the server may return with a workflow task; nil when there is none.
func (c *Capacity) TryReserveSlot(worker.SlotReservationInfo) *worker.SlotPermit {
	ctx, cancel := context.WithTimeout(context.Background(), listTimeout) // the SDK gives none
	defer cancel()
	if !c.take(ctx) {
		return nil
	}
	return &worker.SlotPermit{}
}

// MarkSlotUsed does nothing: a slot counts from its reservation on.
func (c *Capacity) MarkSlotUsed(worker.SlotMarkUsedInfo) {}

// ReleaseSlot releases a slot. The lister lists its sandbox from now on.
func (c *Capacity) ReleaseSlot(worker.SlotReleaseInfo) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held--
	c.signal()
}

// signal wakes all waiters. The caller holds the lock.
func (c *Capacity) signal() {
	close(c.released)
	c.released = make(chan struct{})
}

// MaxSlots is how many sandboxes the host holds at once.
func (c *Capacity) MaxSlots() int { return c.o.Slots }

func (c *Capacity) waiter() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.released
}

// take takes a slot if one is free. The lock is held during the listing, so that two callers cannot take the same slot.
func (c *Capacity) take(ctx context.Context) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held >= c.o.Slots || c.o.Drain.On() {
		return false
	}
	living, err := c.list(ctx)
	if err != nil {
		c.o.Logger.WarnContext(ctx, "no slots while sandboxes cannot be listed", "error", err)
		return false
	}
	n, used := c.used(living, c.claims)
	idle := c.held - len(c.claims) // slots of pollers that have no activity yet
	n, used = n+idle+1, used.Plus(c.o.Default.Times(idle+1))
	if n > c.o.Slots || !used.Within(c.o.Total) {
		return false
	}
	c.held++
	return true
}

func (c *Capacity) list(ctx context.Context) ([]driver.Info, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	return c.o.Sandboxes.List(ctx)
}

// used sums the living sandboxes of agents and the claims whose sandbox is not listed yet. A verifier's sandbox takes
// the place of its agent's, whose processes are dead and whose files alone still take memory.
func (c *Capacity) used(living []driver.Info, claims []*claim) (n int, sum rollout.Resources) {
	listed := map[string]bool{}
	for _, info := range living {
		if info.Labels[driver.LabelPurpose] == driver.PurposeAgent {
			listed[info.ID] = true
			n, sum = n+1, sum.Plus(c.sizeOf(info))
		}
	}
	for _, claimed := range claims {
		if !listed[claimed.id] {
			n, sum = n+1, sum.Plus(claimed.size)
		}
	}
	return n, sum
}

// sizeOf is the size of the sandbox, or the default if it is unknown.
func (c *Capacity) sizeOf(info driver.Info) rollout.Resources {
	d := c.o.Default
	return rollout.Resources{
		CPU: cmp.Or(info.CPU, d.CPU), MemoryMiB: cmp.Or(info.MemoryMiB, d.MemoryMiB), DiskMiB: cmp.Or(info.HomeMiB, d.DiskMiB),
	}
}

// Spare returns how many sandboxes of default size fit beside those of rollouts: the living ones, and those that are about to be made.
// Warm sandboxes are not counted.
func (c *Capacity) Spare(ctx context.Context) (int, error) {
	if c.o.Drain.On() {
		return 0, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	living, err := c.list(ctx)
	if err != nil {
		return 0, err
	}
	n, used := c.used(living, c.claims)
	spare := 0
	for n+spare < c.o.Slots && used.Plus(c.o.Default.Times(spare+1)).Within(c.o.Total) {
		spare++
	}
	return spare, nil
}
