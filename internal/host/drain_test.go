package host_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/host"
	"github.com/rolloutd/rolloutd/internal/host/fleet"
)

// marks are the operators' drain marks, by host.
type marks struct {
	of  map[string]bool
	err error
}

func (m *marks) Drained(_ context.Context, host string) (bool, error) { return m.of[host], m.err }

// A drained host reserves no slot, creates no sandbox for a slot reserved earlier, and keeps no warm
// sandboxes. A claim for an existing sandbox succeeds.
func TestDrainedHostTakesNothingNew(t *testing.T) {
	t.Parallel()

	m := &marks{of: map[string]bool{"other": true}}
	drain := host.NewDrain(m, "h")
	l := &living{}
	l.set(1)
	c := host.NewCapacity(host.CapacityOptions{Slots: 5, Drain: drain, Sandboxes: l})
	require.NoError(t, drain.Refresh(t.Context()))
	require.NotNil(t, c.TryReserveSlot(nil))

	m.of["h"] = true

	require.NoError(t, drain.Refresh(t.Context()))

	require.Nil(t, c.TryReserveSlot(nil))
	_, err := c.Claim(t.Context(), host.Claim{ID: "new.1"})
	require.Equal(t, fault.Exhausted, fault.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "drained")
	release, err := c.Claim(t.Context(), host.Claim{ID: "r0.1"})
	require.NoError(t, err, "a retried activity finds its sandbox")
	release()

	spare, err := c.Spare(t.Context())
	require.NoError(t, err)
	require.Zero(t, spare)

	m.of["h"], m.err = false, errors.New("the store does not answer")

	require.Error(t, drain.Refresh(t.Context()))
	require.True(t, drain.On(), "as before")

	m.err = nil

	require.NoError(t, drain.Refresh(t.Context()))
	require.NotNil(t, c.TryReserveSlot(nil))
}

func TestRoomCounts(t *testing.T) {
	t.Parallel()

	l := &living{infos: []driver.Info{
		{ID: "a.1", Labels: map[string]string{driver.LabelPurpose: driver.PurposeAgent}},
		{ID: "a.1.v", Labels: map[string]string{driver.LabelPurpose: "verifier"}},
		{ID: "warm-1", Labels: host.WarmLabels("k")},
	}}
	c := host.NewCapacity(host.CapacityOptions{Slots: 5, Sandboxes: l})
	_, err := c.Claim(t.Context(), host.Claim{ID: "b.1"})
	require.NoError(t, err)
	room, err := c.Room(t.Context())
	require.NoError(t, err)
	require.Equal(t, fleet.Room{Slots: 5, Used: 2, Warm: 1}, room)
}
