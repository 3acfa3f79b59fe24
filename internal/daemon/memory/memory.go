// Package memory keeps the memory of a process small: it returns what is free to the system when the process comes to rest.
package memory

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/rolloutd/rolloutd/internal/clock"
	"github.com/rolloutd/rolloutd/internal/daemon/tier"
)

// lookEvery is how often a process looks at what it has allocated.
const lookEvery = 10 * time.Second

// Tier returns free memory to the system when the process comes to rest. The runtime keeps what it expects to need again, and collects by how
// much is allocated: after a burst of starts a worker kept its garbage and free memory for as long as the agents waited for their models.
func Tier() tier.Tier {
	return tier.Tier{Name: "memory", Start: func(context.Context) (tier.Running, error) {
		return tier.Background(func(ctx context.Context) error {
			var l looks
			for clock.Sleep(ctx, lookEvery) == nil {
				if l.due(readHeap()) {
					debug.FreeOSMemory()
				}
			}
			return ctx.Err()
		}), nil
	}}
}

// looks decide when free memory is returned. A busy process would have to ask the system again for what it returned.
type looks struct {
	seen     uint64 // bytes allocated at the last look
	returned uint64 // bytes allocated when memory was last returned
}

// heap is what a process has allocated since its start, and what it uses, in bytes.
type heap struct{ allocated, inUse uint64 }

// due says that the process is at rest, and has since memory was last returned allocated enough to be worth a collection: half of what a
// collection has to read.
func (l *looks) due(h heap) bool {
	const leastBusy, leastWorth = 4 << 20, 8 << 20
	atRest := h.allocated-l.seen < max(leastBusy, h.inUse/8)
	l.seen = h.allocated
	if !atRest || h.allocated-l.returned < max(leastWorth, h.inUse/2) {
		return false
	}
	l.returned = h.allocated
	return true
}

func readHeap() heap {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(s)
	return heap{allocated: s[0].Value.Uint64(), inUse: s[1].Value.Uint64() + s[2].Value.Uint64()}
}
