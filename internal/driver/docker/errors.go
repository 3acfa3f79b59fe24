package docker

import (
	"context"
	"errors"
	"net"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/rolloutd/rolloutd/internal/clock"
	"github.com/rolloutd/rolloutd/internal/fault"
)

// failed classifies an error of the daemon: Exhausted if its disk is full, else Unavailable.
func (d *Driver) failed(err error, format string, args ...any) error {
	var broken *net.OpError
	switch {
	case err == nil:
		return nil
	case fault.KindOf(err) != fault.Internal:
		return err
	case strings.Contains(err.Error(), "no space left on device"):
		return fault.Wrap(fault.Exhausted, err, format, args...)
	case client.IsErrConnectionFailed(err) || errors.As(err, &broken):
		err = fault.Wrap(fault.Unavailable, err,
			"the Docker daemon at %s does not answer (is it running, and may this user reach it?)",
			d.o.Daemon.address())
	}

	return fault.Wrap(fault.Unavailable, err, format, args...)
}

// settleTime is the time that the daemon may need to notice the end of a container.
const settleTime = 10 * time.Second

// lostError turns the error of an exec into SandboxLost if the container is gone or has ended. The daemon
// reports the end a little later than the exec fails.
func (d *Driver) lostError(ctx context.Context, id string, err error) error {
	settle, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()

	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		c, inspectErr := d.docker.ContainerInspect(ctx, d.container(id), client.ContainerInspectOptions{})
		switch {
		case cerrdefs.IsNotFound(inspectErr):
			return fault.Wrap(fault.SandboxLost, err, "sandbox %q is gone", id)
		case inspectErr != nil:
			return d.failed(inspectErr, "look at sandbox %q", id)
		case !lives(c.Container.State):
			return fault.Wrap(fault.SandboxLost, err, "sandbox %q has ended", id)
		case client.IsErrConnectionFailed(err) || clock.Sleep(settle, pause) != nil:
			return d.failed(err, "dial sandbox %q", id)
		}
	}
}

func lives(s *container.State) bool { return s != nil && s.Running && !s.Dead }
