package host

import (
	"context"
	"sync/atomic"
)

// Marks returns the drain marks that operators set; *store.Store implements it.
type Marks interface {
	// Drained reports whether a host takes no new sandboxes.
	Drained(ctx context.Context, host string) (bool, error)
}

// Drain is the drain state of this host. The mark is in the store, so it outlives the processes of the host
// and can be set while none runs. It is safe for concurrent use; a nil Drain is off.
type Drain struct {
	marks Marks
	host  string
	on    atomic.Bool
}

// NewDrain makes the drain of a host. It is off until Refresh has found a mark.
func NewDrain(m Marks, host string) *Drain { return &Drain{marks: m, host: host} }

// Refresh reads the mark. An error leaves the state unchanged.
func (d *Drain) Refresh(ctx context.Context) error {
	on, err := d.marks.Drained(ctx, d.host)
	if err == nil {
		d.on.Store(on)
	}

	return err
}

// On reports whether the host takes no new sandboxes.
func (d *Drain) On() bool { return d != nil && d.on.Load() }
