package activities

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"go.temporal.io/sdk/worker"

	"github.com/rolloutd/rolloutd/internal/sandbox/driver"
)

// roomPause is between two looks at a host that is full, unless a slot is given back before.
const roomPause = 500 * time.Millisecond

// roomTimeout bounds one look.
const roomTimeout = 10 * time.Second

// Lister tells the sandboxes of this host; *sandbox.Backend is one.
type Lister interface {
	List(ctx context.Context) ([]driver.Info, error)
}

// Room gives out slots for CreateSandbox: as many as the host has room for further sandboxes. A worker takes a task from the
// queue only with a slot in hand, so a thousand queued rollouts wait in Temporal, or for another host, and not here.
//
// What is counted is what lives, not what this process made: a restarted worker knows of the sandboxes that ran on.
type Room struct {
	capacity int
	lister   Lister
	log      *slog.Logger

	mu   sync.Mutex
	held int // slots given out; each may become a sandbox that the lister does not tell yet
	// freed is closed, and replaced, when a slot comes back.
	freed chan struct{}
}

var _ worker.SlotSupplier = (*Room)(nil)

// NewRoom makes the slots of a host that holds capacity agent sandboxes at once; a nil logger is silent.
func NewRoom(capacity int, l Lister, log *slog.Logger) *Room {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Room{capacity: capacity, lister: l, log: log, freed: make(chan struct{})}
}

// Tuner makes the tuner of the shared queue's worker: its activity slots are the room, all else is the SDK's default.
func (r *Room) Tuner() (worker.WorkerTuner, error) {
	const many = 1000 // the SDK's own defaults
	plain, err := worker.NewFixedSizeSlotSupplier(many)
	if err != nil {
		return nil, err
	}
	return worker.NewCompositeTuner(worker.CompositeTunerOptions{
		WorkflowSlotSupplier: plain, ActivitySlotSupplier: r, LocalActivitySlotSupplier: plain,
		NexusSlotSupplier: plain, SessionActivitySlotSupplier: plain,
	})
}

// ReserveSlot waits until there is room.
func (r *Room) ReserveSlot(ctx context.Context, _ worker.SlotReservationInfo) (*worker.SlotPermit, error) {
	for {
		freed := r.waiter()
		if r.take(ctx) {
			return &worker.SlotPermit{}, nil
		}
		pause := time.NewTimer(roomPause)
		select {
		case <-ctx.Done():
		case <-freed:
		case <-pause.C:
		}
		pause.Stop()
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
}

// TryReserveSlot takes a slot for an activity that the server may hand over along with a workflow task.
func (r *Room) TryReserveSlot(worker.SlotReservationInfo) *worker.SlotPermit {
	ctx, cancel := context.WithTimeout(context.Background(), roomTimeout) // the SDK gives none
	defer cancel()
	if !r.take(ctx) {
		return nil
	}
	return &worker.SlotPermit{}
}

// MarkSlotUsed changes nothing: a slot counts from when it was given.
func (r *Room) MarkSlotUsed(worker.SlotMarkUsedInfo) {}

// ReleaseSlot takes a slot back. The sandbox that it was used for is told by the lister now.
func (r *Room) ReleaseSlot(worker.SlotReleaseInfo) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held--
	close(r.freed)
	r.freed = make(chan struct{})
}

// MaxSlots is the capacity.
func (r *Room) MaxSlots() int { return r.capacity }

func (r *Room) waiter() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.freed
}

// take takes a slot if there is room. The lock is held over the look, so that two of them cannot take the same room.
func (r *Room) take(ctx context.Context) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held >= r.capacity {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, roomTimeout)
	defer cancel()
	living, err := r.lister.List(ctx)
	if err != nil {
		r.log.WarnContext(ctx, "no room while sandboxes cannot be listed", "error", err)
		return false
	}
	if agents(living)+r.held >= r.capacity {
		return false
	}
	r.held++
	return true
}

// agents counts the sandboxes that hold an agent; a verifier's is short-lived and stands in for its agent's.
func agents(infos []driver.Info) int {
	n := 0
	for _, info := range infos {
		if info.Labels[driver.LabelPurpose] == purposeAgent {
			n++
		}
	}
	return n
}
