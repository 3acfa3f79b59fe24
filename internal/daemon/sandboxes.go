package daemon

import (
	"path/filepath"

	"github.com/rolloutd/rolloutd/internal/config"
	"github.com/rolloutd/rolloutd/internal/daemon/images"
	"github.com/rolloutd/rolloutd/internal/daemon/machine"
	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/driver/docker"
	"github.com/rolloutd/rolloutd/internal/driver/e2b"
	"github.com/rolloutd/rolloutd/internal/driver/local"
)

// LocalOptions returns the options of the local driver. Paths are absolute, since they are mounted.
func LocalOptions(c config.Config) (local.Options, error) {
	sandboxd, err := machine.FindSandboxd(c)
	if err != nil {
		return local.Options{}, err
	}

	o := local.Options{
		SandboxdPath: sandboxd,
		Image:        c.Sandbox.Image,
		AllowWeak:    c.Sandbox.AllowWeak,
		Swap:         c.Sandbox.Swap,
	}
	if o.Dir, err = filepath.Abs(c.SandboxDir()); err != nil {
		return local.Options{}, err
	}

	if o.BridgeDir, err = filepath.Abs(filepath.Join(c.ImagesDir(), "bridge")); err != nil {
		return local.Options{}, err
	}

	o.AgentsDir, err = filepath.Abs(c.AgentsDir())

	return o, err
}

// DockerOptions returns the options of the driver of containers.
func DockerOptions(c config.Config) (docker.Options, error) {
	sandboxd, err := machine.FindSandboxd(c)
	if err != nil {
		return docker.Options{}, err
	}

	s := c.Sandbox.Docker

	o := docker.Options{
		SandboxdPath: sandboxd, Image: s.Image, Runtime: s.Runtime, Remote: s.Remote,
		Daemon: docker.Daemon{Host: s.Host, CertPath: s.CertPath}, MayPull: images.MayPull(c.Sandbox.Images.Registries),
	}
	if o.Dir, err = filepath.Abs(c.DockerDir()); err != nil {
		return docker.Options{}, err
	}

	if o.BridgeDir, err = filepath.Abs(filepath.Join(c.ImagesDir(), "bridge")); err != nil {
		return docker.Options{}, err
	}

	o.AgentsDir, err = filepath.Abs(c.AgentsDir())

	return o, err
}

// E2BOptions returns the options of the driver of E2B.
func E2BOptions(c config.Config) (e2b.Options, error) {
	sandboxd, err := machine.FindSandboxd(c)
	if err != nil {
		return e2b.Options{}, err
	}

	s := c.Sandbox.E2B
	o := e2b.Options{
		SandboxdPath: sandboxd,
		Key:          s.APIKey,
		Template:     s.Template,
		Domain:       s.Domain,
		APIURL:       s.APIURL,
		SandboxURL:   s.SandboxURL,
		CreateRate:   s.CreateRate,
	}
	o.Dir, err = filepath.Abs(c.E2BDir())

	return o, err
}

func sizes(c config.Config) driver.Spec {
	s := c.Sandbox

	return driver.Spec{
		CPU: s.CPU, MemoryMiB: s.MemoryMiB, PIDs: s.PIDs, HomeMiB: s.HomeMiB, TmpMiB: s.TmpMiB, Lease: c.Worker.Lease,
	}
}
