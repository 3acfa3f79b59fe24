package host

import (
	"context"

	"github.com/rolloutd/rolloutd/internal/fleet"
	"github.com/rolloutd/rolloutd/internal/sandbox/driver"
)

// Room counts the sandboxes of the backend: those of rollouts, which live or are about to be made, and warm ones.
func (c *Capacity) Room(ctx context.Context) (fleet.Room, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	room := fleet.Room{Slots: c.o.Slots}
	living, err := c.list(ctx)
	if err != nil {
		return room, err
	}
	room.Used, _ = c.used(living, c.claims)
	for _, info := range living {
		if info.Labels[driver.LabelPurpose] == driver.PurposeWarm {
			room.Warm++
		}
	}
	return room, nil
}
