package docker

import (
	"bytes"
	"context"
	"io"
	"os"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/client"

	"github.com/rolloutd/rolloutd/internal/clock"
	"github.com/rolloutd/rolloutd/internal/fault"
)

// removeTime bounds the removal of a container.
const removeTime = 2 * time.Minute

// Destroy implements driver.Driver.
func (d *Driver) Destroy(ctx context.Context, id string) error {
	err := d.remove(ctx, d.container(id))
	if err == nil {
		err = d.removeVolumes(ctx, id)
	}

	if err != nil {
		return d.failed(err, "end sandbox %q", id)
	}

	return fault.Wrap(fault.Unavailable, os.RemoveAll(d.folder(id)), "end sandbox %q", id)
}

// remove kills the container and returns when it is gone. It does nothing if it is gone already.
func (d *Driver) remove(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, removeTime)
	defer cancel()

	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		_, err := d.docker.ContainerRemove(ctx, name, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
		switch {
		case cerrdefs.IsNotFound(err):
			return nil
		case err != nil && !cerrdefs.IsConflict(err): // a conflict: another caller removes it
			return err
		}

		if err := clock.Sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// withLog adds the end of the container's log, sandboxd's output, to the error.
func (d *Driver) withLog(ctx context.Context, containerID string, err error) error {
	log, logErr := d.docker.ContainerLogs(ctx, containerID, client.ContainerLogsOptions{
		ShowStdout: true,
		ShowStderr: true,
		Tail:       "5",
	})
	if logErr != nil {
		return err
	}
	defer log.Close()

	var output bytes.Buffer
	// a partial log is useful too
	_, _ = stdcopy.StdCopy(&output, &output, io.LimitReader(log, 4000))
	if output.Len() == 0 {
		return err
	}

	return fault.Wrap(fault.Unavailable, err, "%s", strings.TrimSpace(output.String()))
}
