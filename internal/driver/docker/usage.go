package docker

import (
	"context"
	"net"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/driver/usage"
	"github.com/rolloutd/rolloutd/internal/fault"
)

// killedStatus is the exit status of a container whose first process, sandboxd, was killed.
const killedStatus = 128 + int(unix.SIGKILL)

// Inspect implements driver.Inspector. sandboxd reads the container's cgroup and queries the file systems
// for free space. For a sandbox that ended by itself, only an OOM kill is known, until its container is
// removed.
func (d *Driver) Inspect(ctx context.Context, id string) (driver.Usage, error) {
	u := driver.NoUsage()

	c, err := d.docker.ContainerInspect(ctx, d.container(id), client.ContainerInspectOptions{})
	switch {
	case cerrdefs.IsNotFound(err):
		return u, fault.New(fault.SandboxLost, "sandbox %q is gone", id)
	case err != nil:
		return u, d.failed(err, "look at sandbox %q", id)
	case !lives(c.Container.State):
		u.OOMKills = 0
		// set if any of its processes was killed
		if c.Container.State.OOMKilled {
			u.OOMKills, u.Killed = 1, c.Container.State.ExitCode == killedStatus
		}

		return u, nil
	}

	info, err := d.daemon(ctx)
	if err != nil {
		return u, err
	}

	u, err = usage.Read(ctx, func(ctx context.Context) (net.Conn, error) { return d.dial(ctx, info, id) })
	if err != nil {
		d.log.Warn("usage is unknown", "sandbox", id, "error", err)
		return u, nil
	}

	if !d.local(info) {
		// an exec needs a process itself, so it fails just when processes are refused
		u.ForksRefused = -1
	}

	return u, nil
}
