package docker

import (
	"context"
	"errors"
	"os"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/sandbox/driver"
)

// startTime bounds how long a container may take from its start until sandboxd answers; it takes some 300 ms on a machine with nothing to do.
const startTime = 2 * time.Minute

// errEnded says that the container ended before sandboxd answered.
var errEnded = errors.New("it ended while starting")

// Create implements driver.Driver. The container's name decides between several callers: one creates it, and all start it and wait for its
// answer. So a caller that was killed between two steps is followed by another that goes on.
func (d *Driver) Create(ctx context.Context, id string, spec driver.Spec) error {
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		c, err := d.docker.ContainerInspect(ctx, d.container(id), client.ContainerInspectOptions{})
		switch {
		case cerrdefs.IsNotFound(err):
			err = d.make(ctx, id, spec)
			if !cerrdefs.IsConflict(err) { // another caller was faster
				return err
			}
		case err != nil:
			return d.failed(err, "look for sandbox %q", id)
		case lives(c.Container.State):
			if err := d.await(ctx, id, c.Container.ID); !errors.Is(err, errEnded) {
				return err
			}
		case c.Container.State.Status == container.StateCreated:
			return d.start(ctx, id, c.Container.ID)
		default: // dead: made anew from nothing
			if err := d.remove(ctx, c.Container.ID); err != nil {
				return d.failed(err, "clear what sandbox %q left", id)
			}
		}
		if err := wait(ctx, pause); err != nil {
			return fault.Wrap(fault.Unavailable, err, "create sandbox %q", id)
		}
	}
}

// make creates the container and starts it. A container of that name is an error of package cerrdefs, Conflict.
func (d *Driver) make(ctx context.Context, id string, spec driver.Spec) error {
	image, g, err := d.image(ctx, spec)
	if err != nil {
		return err
	}
	o, err := d.compose(ctx, id, spec, image, g)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(d.folder(id), 0o700); err != nil {
		return fault.Wrap(fault.Exhausted, err, "folder of sandbox %q", id)
	}
	c, err := d.docker.ContainerCreate(ctx, o)
	if cerrdefs.IsConflict(err) {
		return err
	}
	if err != nil {
		return d.failed(err, "create the container of sandbox %q", id)
	}
	return d.start(ctx, id, c.ID)
}

// start starts a container and waits for sandboxd. A container that cannot start is removed.
func (d *Driver) start(ctx context.Context, id, containerID string) error {
	_, err := d.docker.ContainerStart(ctx, containerID, client.ContainerStartOptions{})
	if err == nil {
		err = d.await(ctx, id, containerID)
	}
	if err == nil || ctx.Err() != nil { // the next caller goes on
		return d.failed(err, "start sandbox %q", id)
	}
	err = d.withLog(ctx, containerID, err)
	ctx = context.WithoutCancel(ctx)
	return errors.Join(d.failed(err, "start sandbox %q", id), d.remove(ctx, containerID), d.removeVolumes(ctx, id))
}

// await returns when sandboxd answers, or its container has ended.
func (d *Driver) await(ctx context.Context, id, containerID string) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		err := d.answers(ctx, id)
		if err == nil {
			return nil
		}
		c, inspectErr := d.docker.ContainerInspect(ctx, containerID, client.ContainerInspectOptions{})
		switch {
		case cerrdefs.IsNotFound(inspectErr):
			return fault.Wrap(fault.Unavailable, errEnded, "sandbox %q", id)
		case inspectErr != nil:
			return d.failed(inspectErr, "look at sandbox %q", id)
		case !lives(c.Container.State):
			return fault.Wrap(fault.Unavailable, errEnded, "sandbox %q", id)
		}
		if waitErr := wait(ctx, pause); waitErr != nil {
			return fault.Wrap(fault.Unavailable, errors.Join(waitErr, err), "sandbox %q does not answer", id)
		}
	}
}

func wait(ctx context.Context, pause time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(pause):
		return nil
	}
}
