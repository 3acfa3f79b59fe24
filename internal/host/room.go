package host

import (
	"context"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/host/fleet"
)

// Room counts the sandboxes of the backend: those of rollouts, which live or are about to be made, and warm
// ones. Where the backends of a machine share its memory, the slots are those that the others leave.
func (c *Capacity) Room(ctx context.Context) (fleet.Room, error) {
	room, _, err := c.roomAndCount(ctx)
	return room, err
}

// roomAndCount is Room, with the number of all sandboxes that live.
func (c *Capacity) roomAndCount(ctx context.Context) (fleet.Room, int, error) {
	c.account.mu.Lock()
	defer c.account.mu.Unlock()

	room := fleet.Room{Slots: c.o.Slots}

	l, err := c.account.ledger(ctx, c)
	if err != nil {
		return room, 0, err
	}

	for _, info := range l.of[c].sandboxes {
		if info.Labels[driver.LabelPurpose] == driver.PurposeWarm {
			room.Warm++
		}
	}

	room.Used = c.addWaiting(l)
	if c.shares() {
		free := 0
		for room.Used+free < c.o.Slots && l.fits(c, c.o.Default.Times(free+1)) {
			free++
		}

		room.Slots = room.Used + free
	}

	return room, len(l.of[c].sandboxes), nil
}
