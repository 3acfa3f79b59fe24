package daemon_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/config"
	"github.com/rolloutd/rolloutd/internal/daemon"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// The number of sandboxes and their total memory determine each other if one is not configured.
func TestCapacityOf(t *testing.T) {
	t.Parallel()
	each := rollout.Resources{CPU: 2, MemoryMiB: 2048, DiskMiB: 1024}
	for name, c := range map[string]struct {
		capacity      int
		total         rollout.Resources
		slots, total2 int
	}{
		"by number": {capacity: 200, slots: 200, total2: 200 * 2048},
		"by memory": {total: rollout.Resources{MemoryMiB: 10_000}, slots: 4, total2: 10_000},
		"by both":   {capacity: 3, total: rollout.Resources{MemoryMiB: 50_000}, slots: 3, total2: 50_000},
	} {
		cfg := config.Defaults()
		cfg.Worker.Capacity = c.capacity
		cfg.Sandbox.Backends = map[string]config.Backend{"local": {Total: c.total}}
		o, err := daemon.CapacityOf(cfg, "local", each)
		require.NoError(t, err, name)
		require.Equal(t, c.slots, o.Slots, name)
		require.Equal(t, c.total2, o.Total.MemoryMiB, name)
	}
	o, err := daemon.CapacityOf(config.Defaults(), "local", each)
	require.NoError(t, err)
	require.Positive(t, o.Slots)
	require.GreaterOrEqual(t, o.Total.MemoryMiB, 2048)

	cfg := config.Defaults()
	cfg.Sandbox.Backends = map[string]config.Backend{"local": {Total: rollout.Resources{MemoryMiB: 1000}}}
	_, err = daemon.CapacityOf(cfg, "local", each)
	require.ErrorContains(t, err, "sandbox.backends.local.total: must be at least cpu")
}
