package daemon

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/rolloutd/rolloutd/activities"
	"github.com/rolloutd/rolloutd/internal/config"
	"github.com/rolloutd/rolloutd/internal/daemon/images"
	"github.com/rolloutd/rolloutd/internal/daemon/machine"
	"github.com/rolloutd/rolloutd/internal/daemon/tier"
	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/driver/docker"
	"github.com/rolloutd/rolloutd/internal/driver/e2b"
	"github.com/rolloutd/rolloutd/internal/driver/local"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/host"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
)

// Names of backends beside the local one.
const (
	DockerBackend = rollout.BackendDocker
	E2BBackend    = rollout.BackendE2B
)

// drivers has the sandbox drivers of this build by the name of their backend.
func (d *Daemon) drivers() map[string]func(context.Context) (driver.Driver, error) {
	return map[string]func(context.Context) (driver.Driver, error){
		rollout.DefaultBackend: d.localDriver,
		DockerBackend:          d.dockerDriver,
		E2BBackend:             d.e2bDriver,
	}
}

// sandboxTier prepares this host's backends. Sandboxes outlive the process; their leases end them.
func (d *Daemon) sandboxTier() tier.Tier {
	return tier.Tier{Name: "sandboxes", Start: func(ctx context.Context, _ *tier.Parts) error {
		d.starts = host.NewStarts(d.cfg.Worker.Starts, d.tel.Registry())
		d.backends = host.Backends{}

		known := d.drivers()
		for _, name := range d.cfg.Sandbox.BackendNames() {
			open, ok := known[name]
			if !ok {
				return fault.Field("sandbox.backends", "must be one of %s; got %q",
					strings.Join(slices.Sorted(maps.Keys(known)), ", "), name)
			}

			drv, err := open(ctx)
			if err != nil {
				return fmt.Errorf("sandbox backend %s: %w", name, err)
			}

			d.backends[name] = sandbox.New(drv, sandbox.Options{Logger: d.log, Defaults: sizes(d.cfg)})
		}

		return nil
	}}
}

// localDriver opens the local driver. On a worker it fails if the machine cannot isolate sandboxes, since
// every rollout would fail.
func (d *Daemon) localDriver(ctx context.Context) (driver.Driver, error) {
	o, err := LocalOptions(d.cfg)
	if err != nil {
		return nil, err
	}
	// mounted into sandboxes, whose users read it
	if err := os.MkdirAll(o.AgentsDir, 0o755); err != nil {
		return nil, err
	}

	o.Logger = d.log

	store, err := images.Open(d.cfg, d.log)
	if err != nil {
		return nil, err
	}

	d.images = store
	o.Images = images.New(store, d.cfg.Sandbox.Images.Registries, d.starts)

	drv, err := local.New(o)
	if err != nil {
		return nil, err
	}

	if d.roles.Worker {
		if err := drv.Probe(ctx); err != nil {
			return nil, fmt.Errorf("this machine does not isolate sandboxes (run `rolloutd doctor`): %w", err)
		}
	}

	return drv, nil
}

// dockerDriver opens the driver of containers. On a worker it fails if the daemon does not answer or lacks
// what a sandbox needs.
func (d *Daemon) dockerDriver(ctx context.Context) (driver.Driver, error) {
	o, err := DockerOptions(d.cfg)
	if err != nil {
		return nil, err
	}
	// mounted into sandboxes, whose users read it
	if err := os.MkdirAll(o.AgentsDir, 0o755); err != nil {
		return nil, err
	}

	o.Logger = d.log

	drv, err := docker.New(o)
	if err != nil {
		return nil, err
	}

	if d.roles.Worker {
		return drv, drv.Probe(ctx)
	}

	return drv, nil
}

// e2bDriver opens the driver of E2B. On a worker it fails if the service does not answer or refuses the key.
func (d *Daemon) e2bDriver(ctx context.Context) (driver.Driver, error) {
	o, err := E2BOptions(d.cfg)
	if err != nil {
		return nil, err
	}

	o.Logger = d.log

	drv, err := e2b.New(o)
	if err != nil {
		return nil, err
	}

	if d.roles.Worker {
		return drv, drv.Probe(ctx)
	}

	return drv, nil
}

// capacities are the host's backends, each with its capacity.
func (d *Daemon) capacities() (map[string]activities.Backend, error) {
	options := map[string]host.CapacityOptions{}

	for _, name := range d.backends.Names() {
		o, err := capacityOf(d.cfg, name, d.backends[name].Resources(rollout.Sandbox{}))
		if err != nil {
			return nil, err
		}

		options[name] = o
	}

	all := map[string]activities.Backend{}

	machine := accountOf(d.cfg, options)
	for _, name := range d.backends.Names() {
		b, o := d.backends[name], options[name]

		o.Sandboxes, o.Drain, o.Logger, o.Share = b, d.drain, d.log, d.cfg.Worker.TokenShare
		if onMachine(d.cfg, name) {
			o.Account = machine
		}

		d.log.Info("capacity of this host", "backend", name, "sandboxes", o.Slots, "total", o.Total, "each", o.Default)
		all[name] = activities.Backend{Backend: b, Capacity: host.NewCapacity(o)}
	}

	return all, nil
}

// onMachine reports whether the sandboxes of a backend use the memory of this machine.
func onMachine(c config.Config, backend string) bool {
	if backend != DockerBackend {
		return backend != E2BBackend
	}

	daemon, err := url.Parse(c.Sandbox.Docker.Host)
	if err != nil || c.Sandbox.Docker.Remote {
		return false
	}

	name := daemon.Hostname()

	return daemon.Scheme == "" || daemon.Scheme == "unix" || name == "localhost" || net.ParseIP(name).IsLoopback()
}

// accountOf returns the account of this machine, which its backends share; nil: there is one backend, or
// the operator has divided the memory among them.
func accountOf(c config.Config, backends map[string]host.CapacityOptions) *host.Account {
	most, members, divided := 0, 0, true

	for name, o := range backends {
		if onMachine(c, name) {
			members, most = members+1, max(most, o.Total.MemoryMiB)
			divided = divided && c.Sandbox.Backends[name].Total.MemoryMiB > 0
		}
	}

	if members < 2 || divided {
		return nil
	}

	return host.NewAccount(rollout.Resources{MemoryMiB: most})
}

// capacityOf returns how many sandboxes of the default size fit on the host: the configured number, or what
// fits into its memory.
func capacityOf(c config.Config, backend string, each rollout.Resources) (host.CapacityOptions, error) {
	o := host.CapacityOptions{Slots: c.Worker.Capacity, Total: c.Sandbox.Backends[backend].Total, Default: each}
	switch {
	case backend == E2BBackend && o.Total.MemoryMiB == 0:
		// the memory of this machine does not bound sandboxes elsewhere
		o.Slots = c.Sandbox.E2B.Sandboxes
		o.Total.MemoryMiB = o.Slots * each.MemoryMiB
	case o.Total.MemoryMiB == 0 && o.Slots == 0:
		memory, err := machine.MemoryMiB()
		if err != nil {
			return o, err
		}

		o.Slots = machine.Fits(memory, each.MemoryMiB)
		o.Total.MemoryMiB = max(memory-machine.ReserveMiB, each.MemoryMiB)
	case o.Total.MemoryMiB == 0: // the operator sets the number, whatever the memory
		o.Total.MemoryMiB = o.Slots * each.MemoryMiB
	case o.Slots == 0:
		o.Slots = max(1, o.Total.MemoryMiB/each.MemoryMiB)
	}

	if backend == E2BBackend {
		// what the account allows, and costs
		o.Slots = min(o.Slots, c.Sandbox.E2B.Sandboxes)
	}

	if !each.Within(o.Total) {
		return o, fault.Field("sandbox.backends."+backend+".total",
			"must be at least cpu %g, memory_mib %d and disk_mib %d, which one sandbox takes; got %g, %d and %d",
			each.CPU, each.MemoryMiB, each.DiskMiB, o.Total.CPU, o.Total.MemoryMiB, o.Total.DiskMiB)
	}

	return o, nil
}
