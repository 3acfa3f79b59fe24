package local

import (
	"context"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/sandbox/driver"
	"github.com/rolloutd/rolloutd/internal/sandbox/usage"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// Inspect implements driver.Inspector. A sandbox that died by itself can be asked for an hour longer, a destroyed one not.
func (d *Driver) Inspect(_ context.Context, id string) (driver.Usage, error) {
	dir := d.path(id)
	if !exists(dir) {
		return driver.Usage{}, fault.New(fault.SandboxLost, "sandbox %q is gone", id)
	}
	s, err := readState(dir)
	if err != nil {
		return driver.Usage{}, fault.Wrap(fault.Internal, err, "state of sandbox %q", id)
	}
	if s.Usage != nil {
		return *s.Usage, nil
	}
	u := d.usage(s)
	if first, ok := readInit(dir); ok {
		u.FullFolders = first.fullFolders()
	}
	return u, nil
}

// usage is what the cgroups know.
func (d *Driver) usage(s state) driver.Usage {
	if d.cgroups == nil || s.Cgroup == "" {
		return driver.NoUsage()
	}
	return d.cgroups.Counters(s.Cgroup).Read()
}

// fullFolders are the mount points of the sandbox that have no room. It asks their file systems from outside: nothing in the sandbox
// answers, and no link of the sandbox is followed.
func (p initProcess) fullFolders() []string {
	root, err := unix.Open(fmt.Sprintf("/proc/%d/root", p.PID), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(root)
	if !p.same() {
		return nil
	}
	return usage.FullFolders(root, []string{"/", "/dev/shm", wire.AgentHome, "/run", "/tmp", verifierMount})
}
