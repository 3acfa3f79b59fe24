package local

import (
	"context"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/driver/usage"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// Inspect implements driver.Inspector. It knows a sandbox that died by itself for an hour, and no destroyed one.
func (d *Driver) Inspect(ctx context.Context, id string) (driver.Usage, error) {
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
	// the numbers of a dead one may be another sandbox's, see killSandbox
	living, err := alive(ctx, dir)
	if first, ok := readInit(dir); ok && living && err == nil {
		u.FullFolders = first.fullFolders()
	}

	return u, nil
}

// usage returns the usage from the cgroups.
func (d *Driver) usage(s state) driver.Usage {
	if d.cgroups == nil || s.Cgroup == "" {
		return driver.NoUsage()
	}

	u := d.cgroups.Counters(s.Cgroup).Read()
	u.ByHost = u.OOMKills > 0 && !d.cgroups.LimitReached(s.Cgroup)

	return u
}

// fullFolders returns the sandbox's mount points without free space. It queries their file systems from
// outside, so it needs no answer from the sandbox and follows none of its links.
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
