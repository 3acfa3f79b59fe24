package sandbox

import (
	"cmp"
	"time"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// packageDefaults fit one coding agent and its tools: the agent needs about 400 MiB and 60 threads;
// compilers and test runs need the rest.
func packageDefaults() driver.Spec {
	return driver.Spec{
		CPU:       2,
		MemoryMiB: 2048,
		PIDs:      512,
		HomeMiB:   1024,
		TmpMiB:    512,
		Lease:     5 * time.Minute,
	}
}

func withDefaults(s, d driver.Spec) driver.Spec {
	s.Image = cmp.Or(s.Image, d.Image)
	s.CPU = cmp.Or(s.CPU, d.CPU)
	s.MemoryMiB = cmp.Or(s.MemoryMiB, d.MemoryMiB)
	s.PIDs = cmp.Or(s.PIDs, d.PIDs)
	s.HomeMiB = cmp.Or(s.HomeMiB, d.HomeMiB)
	s.TmpMiB = cmp.Or(s.TmpMiB, d.TmpMiB)
	s.Lease = cmp.Or(s.Lease, d.Lease)

	return s
}

// Resources returns the resources of a sandbox of this spec and of its services, with defaults.
func (b *Backend) Resources(s rollout.Sandbox) rollout.Resources {
	spec := specOf(s, b.defaults)
	all := rollout.Resources{CPU: spec.CPU, MemoryMiB: spec.MemoryMiB, DiskMiB: spec.HomeMiB}

	for _, service := range s.Services {
		all = all.Plus(b.Resources(service.Sandbox(s.Backend)))
	}

	return all
}

func specOf(s rollout.Sandbox, d driver.Spec) driver.Spec {
	return withDefaults(driver.Spec{
		Image:      s.Image,
		User:       s.User,
		Workdir:    s.Workdir,
		ImageEnv:   s.ImageEnv,
		GradePaths: s.GradePaths,
		Changed:    s.Changed,
		Env:        s.Env,
		Hosts:      hostsOf(s),
		Volumes:    volumesOf(s),
		CPU:        s.CPU,
		MemoryMiB:  s.MemoryMiB,
		HomeMiB:    s.DiskMiB,
	}, d)
}
