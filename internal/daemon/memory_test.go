package daemon

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/daemon/tier"
)

// An idle process returns garbage and free memory to the system. The test is not parallel, because other
// tests would trigger collections.
func TestMemoryIsReturnedWhenIdle(t *testing.T) {
	const size = 64 << 20

	garbage := make([]byte, size)
	for i := 0; i < size; i += 4096 {
		garbage[i] = 1
	}
	// from now on the runtime counts no garbage
	runtime.GC()
	runtime.KeepAlive(garbage)

	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	synctest.Test(t, func(t *testing.T) {
		var parts tier.Parts
		require.NoError(t, memoryTier().Start(t.Context(), &parts))
		time.Sleep(time.Minute)
		synctest.Wait()
		require.NoError(t, parts.Stop(t.Context()))
	})
	runtime.ReadMemStats(&after)
	require.Greater(t, after.HeapReleased, before.HeapReleased+size/2)
}

// Memory is returned when the process becomes idle, and again when there is enough garbage for a collection.
func TestMemoryIsReturnedWhenGarbageHasGrown(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		inUse     uint64
		allocated []uint64
		want      []bool
	}{
		"a burst, then rest": {160, []uint64{300, 500, 519, 530}, []bool{false, false, true, false}},
		"slowly":             {160, []uint64{15, 30, 45, 60, 75, 90, 105}, []bool{false, false, false, false, false, true, false}},
		"a small process":    {8, []uint64{5, 7, 9, 12, 15, 18}, []bool{false, false, true, false, false, true}},
		"always busy":        {160, []uint64{100, 200, 300, 400}, []bool{false, false, false, false}},
	} {
		require.Equal(t, c.want, Due(c.inUse, c.allocated...), name)
	}
}
