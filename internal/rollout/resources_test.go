package rollout_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// The default backend keeps its original queue name, because workflows and hosts of other builds use it.
func TestCreateQueue(t *testing.T) {
	t.Parallel()
	require.Equal(t, "rolloutd", rollout.CreateQueue(""))
	require.Equal(t, "rolloutd", rollout.CreateQueue("local"))
	require.Equal(t, "rolloutd-create-e2b", rollout.CreateQueue("e2b"))
}

func TestCheckMax(t *testing.T) {
	t.Parallel()

	most := rollout.Resources{CPU: 4, MemoryMiB: 4096, DiskMiB: 10}
	require.NoError(t, rollout.Sandbox{CPU: 4, MemoryMiB: 4096, DiskMiB: 10}.CheckMax(most))
	require.NoError(t, rollout.Sandbox{
		CPU:       99,
		MemoryMiB: 1 << 20,
		DiskMiB:   1 << 20,
	}.CheckMax(rollout.Resources{}), "zero is unbounded")
	require.ErrorContains(
		t,
		rollout.Sandbox{MemoryMiB: 1_000_000}.CheckMax(most),
		"sandbox.memory_mib: must be at most 4096 on this server, got 1000000",
	)
	require.ErrorContains(t, rollout.Sandbox{DiskMiB: 900_000}.CheckMax(most), "sandbox.disk_mib: must be at most 10")
	require.ErrorContains(
		t,
		rollout.Sandbox{CPU: 4.5}.CheckMax(most),
		"sandbox.cpu: must be at most 4 on this server, got 4.5",
	)
}
