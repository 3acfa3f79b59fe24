package host

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"go.temporal.io/sdk/worker"

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

// Capacity is the slot supplier of CreateSandbox: it has a slot for each further sandbox that the host can hold. A worker polls the
// create queue only with a slot in hand, so queued rollouts wait in Temporal, where any host can take them.
//
// It counts the sandboxes that live, not those this process made, so a restarted worker counts the sandboxes that ran on. It is safe
// for concurrent use.
type Capacity struct {
	slots  int
	lister Lister
	log    *slog.Logger

	mu   sync.Mutex
	held int // slots in use; each may become a sandbox that the lister does not list yet
	// released is closed, and replaced, when a slot is released.
	released chan struct{}
}

var _ worker.SlotSupplier = (*Capacity)(nil)

// NewCapacity makes the slots of a host that holds that many agent sandboxes at once; a nil logger is silent.
func NewCapacity(slots int, l Lister, log *slog.Logger) *Capacity {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Capacity{slots: slots, lister: l, log: log, released: make(chan struct{})}
}

// Tuner makes the tuner of a create queue's worker: its activity slots are the capacity, all else is the SDK's default.
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
		pause := time.NewTimer(fullPause)
		select {
		case <-ctx.Done():
		case <-released:
		case <-pause.C:
		}
		pause.Stop()
		if err := ctx.Err(); err != nil {
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
	close(c.released)
	c.released = make(chan struct{})
}

// MaxSlots is how many sandboxes the host holds at once.
func (c *Capacity) MaxSlots() int { return c.slots }

func (c *Capacity) waiter() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.released
}

// take takes a slot if one is free. The lock is held during the listing, so that two callers cannot take the same slot.
func (c *Capacity) take(ctx context.Context) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held >= c.slots {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	living, err := c.lister.List(ctx)
	if err != nil {
		c.log.WarnContext(ctx, "no slots while sandboxes cannot be listed", "error", err)
		return false
	}
	if agents(living)+c.held >= c.slots {
		return false
	}
	c.held++
	return true
}

// agents counts the sandboxes of agents. A verifier's sandbox is short-lived and takes the place of its agent's.
func agents(infos []driver.Info) int {
	n := 0
	for _, info := range infos {
		if info.Labels[driver.LabelPurpose] == driver.PurposeAgent {
			n++
		}
	}
	return n
}
