package host

import (
	"context"
	"sync/atomic"
)

// Marks has what operators want of hosts; *store.Store is one.
type Marks interface {
	// Drained says whether a host takes no new sandboxes.
	Drained(ctx context.Context, host string) (bool, error)
}

// Drain says whether this host takes no new sandboxes. The mark is in the store, so it outlives the processes of the host and can be set
// while none runs. It is safe for concurrent use; a nil Drain is off.
type Drain struct {
	marks Marks
	host  string
	on    atomic.Bool
}

// NewDrain makes the drain of a host. It is off until Look has found a mark.
func NewDrain(m Marks, host string) *Drain { return &Drain{marks: m, host: host} }

// Look reads the mark. After an error the drain is as before.
func (d *Drain) Look(ctx context.Context) error {
	on, err := d.marks.Drained(ctx, d.host)
	if err == nil {
		d.on.Store(on)
	}
	return err
}

// On says whether the host takes no new sandboxes.
func (d *Drain) On() bool { return d != nil && d.on.Load() }
