package daemon

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/rolloutd/rolloutd/internal/clock"
	"github.com/rolloutd/rolloutd/internal/daemon/tier"
)

// interval is the time between two checks of what the process has allocated.
const interval = 10 * time.Second

// memoryTier returns free memory to the system when the process comes to rest. The runtime keeps free
// memory that it expects to need, and collects only after further allocations: without this tier, a worker
// keeps the garbage of a burst of starts for as long as its agents wait for models.
func memoryTier() tier.Tier {
	return tier.Tier{Name: "memory", Start: func(_ context.Context, parts *tier.Parts) error {
		parts.OnStop(tier.Background(func(ctx context.Context) error {
			var m monitor
			for clock.Sleep(ctx, interval) == nil {
				if m.due(readHeap()) {
					debug.FreeOSMemory()
				}
			}

			return ctx.Err()
		}).Stop)

		return nil
	}}
}

// monitor decides when free memory is returned. A busy process would soon need the memory again.
type monitor struct {
	// bytes allocated at the last check
	lastAllocated uint64

	// bytes allocated when memory was last returned
	returned uint64
}

// heap is what a process has allocated since its start, and what it uses, in bytes.
type heap struct{ allocated, inUse uint64 }

// due reports whether the process is at rest and has allocated enough since memory was last returned to make a
// collection worthwhile: half of what a collection has to read.
func (m *monitor) due(h heap) bool {
	const leastBusy, leastWorth = 4 << 20, 8 << 20

	atRest := h.allocated-m.lastAllocated < max(leastBusy, h.inUse/8)

	m.lastAllocated = h.allocated
	if !atRest || h.allocated-m.returned < max(leastWorth, h.inUse/2) {
		return false
	}

	m.returned = h.allocated

	return true
}

func readHeap() heap {
	s := []metrics.Sample{
		{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/heap/stacks:bytes"},
	}
	metrics.Read(s)

	return heap{allocated: s[0].Value.Uint64(), inUse: s[1].Value.Uint64() + s[2].Value.Uint64()}
}
