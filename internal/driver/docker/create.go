package docker

import (
	"context"
	"errors"
	"os"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/rolloutd/rolloutd/internal/clock"
	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/fault"
)

// startTime bounds the time from a container's start until sandboxd answers; on an idle machine it takes about 300 ms.
const startTime = 2 * time.Minute

// errEnded means that the container ended before sandboxd answered.
var errEnded = errors.New("the container ended while starting")

// Create implements driver.Driver. The container's name serializes several callers: one creates it, and all
// start it and wait for its answer. So another caller can complete the work of one that was killed.
func (d *Driver) Create(ctx context.Context, id string, spec driver.Spec) error {
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		c, err := d.docker.ContainerInspect(ctx, d.container(id), client.ContainerInspectOptions{})
		switch {
		case cerrdefs.IsNotFound(err):
			err = d.createContainer(ctx, id, spec)
			// another caller was faster
			if !cerrdefs.IsConflict(err) {
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
		default: // dead: replaced by a new one
			if err := d.remove(ctx, c.Container.ID); err != nil {
				return d.failed(err, "remove the remains of sandbox %q", id)
			}
		}

		if err := clock.Sleep(ctx, pause); err != nil {
			return fault.Wrap(fault.Unavailable, err, "create sandbox %q", id)
		}
	}
}

// createContainer creates the container and starts it. An existing container of that name is a Conflict of package cerrdefs.
func (d *Driver) createContainer(ctx context.Context, id string, spec driver.Spec) error {
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

// start starts a container and waits for sandboxd. It removes a container that cannot start.
func (d *Driver) start(ctx context.Context, id, containerID string) error {
	_, err := d.docker.ContainerStart(ctx, containerID, client.ContainerStartOptions{})
	if err == nil {
		err = d.await(ctx, id, containerID)
	}
	// the next caller continues
	if err == nil || ctx.Err() != nil {
		return d.failed(err, "start sandbox %q", id)
	}

	err = d.withLog(ctx, containerID, err)
	ctx = context.WithoutCancel(ctx)

	return errors.Join(d.failed(err, "start sandbox %q", id), d.remove(ctx, containerID), d.removeVolumes(ctx, id))
}

// await returns when sandboxd answers, or when its container has ended.
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

		if waitErr := clock.Sleep(ctx, pause); waitErr != nil {
			return fault.Wrap(fault.Unavailable, errors.Join(waitErr, err), "sandbox %q does not answer", id)
		}
	}
}
