package daemon

import (
	"context"
	"errors"
	"fmt"

	"github.com/rolloutd/rolloutd/activities"
	"github.com/rolloutd/rolloutd/internal/agent/opencode"
	"github.com/rolloutd/rolloutd/internal/filelock"
	"github.com/rolloutd/rolloutd/internal/gateway"
	"github.com/rolloutd/rolloutd/internal/host"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// workerTier runs rollouts: one worker on the queue that all hosts share (workflows and CreateSandbox), one on this host's own queue
// (all other activities of its sandboxes), and the janitor.
func (d *Daemon) workerTier() Tier {
	return Tier{Name: "worker", Budget: 2 * workerStop, Start: func(ctx context.Context) (Running, error) {
		lock, err := filelock.Take(d.cfg.HostIDFile() + ".lock")
		if err != nil {
			return Running{}, fmt.Errorf("one worker to a data folder: %w", err)
		}
		running, err := d.runWorkers(ctx)
		if err != nil {
			return Running{}, errors.Join(err, lock.Release())
		}
		stop := running.Stop
		running.Stop = func(ctx context.Context) error { return errors.Join(stop(ctx), lock.Release()) }
		return running, nil
	}}
}

func (d *Daemon) runWorkers(ctx context.Context) (Running, error) {
	routes := gateway.NewClient(d.cfg.GatewayURL(), d.key)
	slots, err := d.capacity()
	if err != nil {
		return Running{}, err
	}
	acts, err := d.activities(routes, slots.MaxSlots())
	if err != nil {
		return Running{}, err
	}
	if err := meet(ctx, d.cfg.GatewayURL(), d.key, d.log); err != nil {
		return Running{}, err
	}
	failed := make(chan error, 1)
	shared, err := d.sharedWorker(acts, slots, failed)
	if err != nil {
		return Running{}, err
	}
	own := d.hostWorker(acts, slots.MaxSlots(), failed)
	d.takeOver(ctx)
	if err := startWorkers(shared, own); err != nil {
		return Running{}, err
	}
	janitor := background(d.janitor(routes))
	return Running{Done: failed, Stop: func(ctx context.Context) error {
		return errors.Join(janitor.Stop(ctx), stopWorkers(shared, own))
	}}, nil
}

// takeOver reclaims the activities of a worker that was killed. Its failure is not fatal: their heartbeat timeout does the same later.
func (d *Daemon) takeOver(ctx context.Context) {
	t := &host.Takeover{Host: d.host, Namespace: d.namespace, Pending: d.temporal, Sandboxes: d.sandboxes, Logger: d.log}
	if _, err := t.Reclaim(ctx); err != nil {
		d.log.WarnContext(ctx, "activities of the previous worker may wait for their heartbeat timeout", "error", err)
	}
}

// activities are those of this host.
func (d *Daemon) activities(routes *gateway.Client, slots int) (*activities.Activities, error) {
	id, err := hostID(d.cfg.HostIDFile())
	if err != nil {
		return nil, err
	}
	d.host = id
	o, err := LocalOptions(d.cfg)
	if err != nil {
		return nil, err
	}
	return activities.New(activities.Options{
		Host: id, Queue: d.queue(), Backend: d.sandboxes, Gateway: routes, Store: d.store, Signals: d.temporal,
		Slots: slots, Starts: d.starts, Lease: d.cfg.Worker.Lease, Logger: d.log,
		Agents: map[string]activities.Agent{
			rollout.AgentOpencode: {Agent: opencode.New(opencode.Options{AgentsDir: o.AgentsDir, Logger: d.log}), Log: opencode.AgentLog},
		},
	}), nil
}

// capacity is how many sandboxes this host holds.
func (d *Daemon) capacity() (*host.Capacity, error) {
	n, err := capacity(d.cfg)
	if err != nil {
		return nil, err
	}
	d.log.Info("capacity of this host", "sandboxes", n, "memory_mib_each", d.cfg.Sandbox.MemoryMiB)
	return host.NewCapacity(n, d.sandboxes, d.log), nil
}

func (d *Daemon) janitor(routes *gateway.Client) func(context.Context) error {
	j := &host.Janitor{
		Sandboxes: d.sandboxes, Workflows: d.temporal, Routes: routes,
		Grace: d.cfg.Worker.Grace, Every: d.cfg.Worker.Janitor, Logger: d.log,
	}
	return func(ctx context.Context) error {
		if n, err := d.store.Sweep(ctx); err != nil && ctx.Err() == nil {
			d.log.Warn("store not swept", "error", err)
		} else if n > 0 {
			d.log.Info("removed unfinished blobs of killed writers", "blobs", n)
		}
		j.Run(ctx)
		return nil
	}
}
