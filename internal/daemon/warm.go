package daemon

import (
	"context"
	"sync"

	"github.com/rolloutd/rolloutd/activities"
	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/host"
)

// addWarmPools adds a pool of warm sandboxes to each backend that can hand sandboxes over. run maintains
// the pools until its context ends.
func (d *Daemon) addWarmPools(
	backends map[string]activities.Backend,
	agents *agent.Registry,
) (run func(context.Context) error) {
	var pools []*host.WarmPool

	for name, b := range backends {
		if !b.HandsOver() {
			continue
		}

		b.Warm = host.NewWarmPool(host.WarmOptions{
			Size:     d.cfg.Sandbox.Warm,
			Room:     b.Capacity,
			Starts:   d.starts,
			Backend:  name,
			Registry: d.tel.Registry(),
			Logger:   d.log,
			Sandboxes: host.WarmBackend{
				Backend: b.Backend, Agents: agents, Lease: d.cfg.Worker.Lease, Prepare: activities.PrepareSandbox,
			},
		})
		backends[name] = b
		pools = append(pools, b.Warm)
	}

	return func(ctx context.Context) error {
		var all sync.WaitGroup
		for _, p := range pools {
			all.Go(func() { p.Run(ctx) })
		}

		all.Wait()

		return nil
	}
}
