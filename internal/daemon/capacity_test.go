package daemon_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/config"
	"github.com/rolloutd/rolloutd/internal/daemon"
	"github.com/rolloutd/rolloutd/internal/host"
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

	// what the account allows, whatever memory there is
	elsewhere := config.Defaults()
	elsewhere.Sandbox.E2B.Sandboxes = 5
	elsewhere.Sandbox.Backends = map[string]config.Backend{"e2b": {Total: rollout.Resources{MemoryMiB: 1 << 20}}}

	e2b, err := daemon.CapacityOf(elsewhere, "e2b", each)
	require.NoError(t, err)
	require.Equal(t, 5, e2b.Slots)

	o, err := daemon.CapacityOf(config.Defaults(), "local", each)
	require.NoError(t, err)
	require.Positive(t, o.Slots)
	require.GreaterOrEqual(t, o.Total.MemoryMiB, 2048)

	cfg := config.Defaults()
	cfg.Sandbox.Backends = map[string]config.Backend{"local": {Total: rollout.Resources{MemoryMiB: 1000}}}
	_, err = daemon.CapacityOf(cfg, "local", each)
	require.ErrorContains(t, err, "sandbox.backends.local.total: must be at least cpu")
}

// The backends on one machine share its memory, unless the operator has divided it among them.
func TestAccountOfTheMachine(t *testing.T) {
	t.Parallel()

	each := rollout.Resources{MemoryMiB: 2048}
	options := func(cfg config.Config, names ...string) map[string]host.CapacityOptions {
		all := map[string]host.CapacityOptions{}

		for _, name := range names {
			o, err := daemon.CapacityOf(cfg, name, each)
			require.NoError(t, err)

			all[name] = o
		}

		return all
	}
	shared := config.Defaults()
	require.NotNil(t, daemon.AccountOf(shared, options(shared, "local", "docker")))
	require.Nil(t, daemon.AccountOf(shared, options(shared, "local")))
	require.Nil(t, daemon.AccountOf(shared, options(shared, "local", "e2b")), "sandboxes of E2B are elsewhere")

	remote := shared
	remote.Sandbox.Docker.Remote = true
	require.Nil(t, daemon.AccountOf(remote, options(remote, "local", "docker")))

	remote = shared
	for _, address := range []string{"tcp://10.0.0.1:2376", "ssh://user@docker"} {
		remote.Sandbox.Docker.Host = address
		require.Nil(t, daemon.AccountOf(remote, options(remote, "local", "docker")), address)
	}

	remote.Sandbox.Docker.Host = "tcp://127.0.0.1:2375"
	require.NotNil(t, daemon.AccountOf(remote, options(remote, "local", "docker")))

	divided := shared
	divided.Sandbox.Backends = map[string]config.Backend{
		"local": {Total: rollout.Resources{MemoryMiB: 4096}}, "docker": {Total: rollout.Resources{MemoryMiB: 8192}},
	}
	require.Nil(t, daemon.AccountOf(divided, options(divided, "local", "docker")))
}
