package delivery

import (
	"context"
	"time"

	"github.com/rolloutd/rolloutd/internal/clock"
)

// tendEvery is the interval at which buffering sinks close what is due.
const tendEvery = time.Minute

// Maintain makes buffering sinks close what is due, until ctx ends: there may be no further delivery to do so.
func (d *Deliverer) Maintain(ctx context.Context) error {
	for {
		if err := clock.Sleep(ctx, tendEvery); err != nil {
			return err
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
