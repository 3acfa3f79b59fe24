package daemon

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/rolloutd/rolloutd/internal/config"
	"github.com/rolloutd/rolloutd/internal/host"
	"github.com/rolloutd/rolloutd/internal/sandbox"
	"github.com/rolloutd/rolloutd/internal/sandbox/driver"
	"github.com/rolloutd/rolloutd/internal/sandbox/local"
)

// sandboxTier prepares this host's sandboxes. They outlive the process on purpose: their leases guard them.
func (d *Daemon) sandboxTier() Tier {
	return Tier{Name: "sandboxes", Start: func(ctx context.Context) (Running, error) {
		d.starts = host.NewStarts(d.cfg.Worker.Starts, d.tel.Registry())
		o, err := LocalOptions(d.cfg)
		if err != nil {
			return Running{}, err
		}
		if err := os.MkdirAll(o.AgentsDir, 0o755); err != nil { // mounted into sandboxes, where its owner is another
			return Running{}, err
		}
		o.Logger = d.log
		drv, err := local.New(o)
		if err != nil {
			return Running{}, err
		}
		if d.roles.Worker { // rather no worker than one whose every rollout waits for a sandbox in vain
			if err := drv.Probe(ctx); err != nil {
				return Running{}, fmt.Errorf("this machine makes no safe sandboxes (`rolloutd doctor` says how to mend it): %w", err)
			}
		}
		d.sandboxes = sandbox.New(drv, sandbox.Options{Logger: d.log, Defaults: sizes(d.cfg)})
		return Running{}, nil
	}}
}

// LocalOptions are the options of the local sandbox driver. Paths are made absolute: they are mounted.
func LocalOptions(c config.Config) (local.Options, error) {
	sandboxd, err := findSandboxd(c)
	if err != nil {
		return local.Options{}, err
	}
	o := local.Options{SandboxdPath: sandboxd, Image: c.Sandbox.Image, AllowWeak: c.Sandbox.AllowWeak}
	if o.Dir, err = filepath.Abs(c.SandboxDir()); err != nil {
		return local.Options{}, err
	}
	o.AgentsDir, err = filepath.Abs(c.AgentsDir())
	return o, err
}

func sizes(c config.Config) driver.Spec {
	s := c.Sandbox
	return driver.Spec{
		CPU: s.CPU, MemoryMiB: s.MemoryMiB, PIDs: s.PIDs, HomeMiB: s.HomeMiB, TmpMiB: s.TmpMiB, Lease: c.Worker.Lease,
	}
}
