package delivery

import (
	"context"
	"time"
)

// tendEvery is the interval at which buffering sinks close what is due.
const tendEvery = time.Minute

// Maintain makes buffering sinks close what is due, until ctx ends: there may be no further delivery to do so.
func (d *Deliverer) Maintain(ctx context.Context) error {
	tick := time.NewTicker(tendEvery)
	defer tick.Stop()

	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}

		for name, s := range d.Sinks {
			buffer, ok := s.Sink.(DueCloser)
			if !ok {
				continue
			}

			if err := buffer.CloseDue(ctx); err != nil && ctx.Err() == nil {
				d.Log.WarnContext(ctx, "groups of a sink are not closed at their age", "sink", name, "error", err)
			}
		}
	}
}
