package docker

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/fault"
)

// List implements driver.Driver. It also removes old images, and the containers of sandboxes that ended
// some time ago, of every owner: a dead host removes none, and its sandboxes have ended by their leases.
func (d *Driver) List(ctx context.Context) ([]driver.Info, error) {
	all, err := d.docker.ContainerList(ctx, client.ContainerListOptions{
		All:     true,
		Filters: client.Filters{}.Add("label", labelSandbox),
	})
	if err != nil {
		return nil, d.failed(err, "list sandboxes")
	}

	var (
		infos   []driver.Info
		folders []string
	)

	for _, c := range all.Items {
		own := c.Labels[labelOwner] == d.owner
		if own {
			folders = append(folders, d.folder(c.Labels[labelSandbox]))
		}

		if c.State != container.StateRunning {
			d.sweep(ctx, c)
			continue
		}

		if !own || !d.serves(ctx, c.Labels[labelSandbox]) {
			continue
		}

		info, err := infoOf(c.Labels)
		if err != nil {
			return nil, fault.Wrap(fault.Internal, err, "labels of container %s", c.ID)
		}

		infos = append(infos, info)
	}

	d.sweepFolders(folders)
	d.sweepVolumes(ctx)
	d.sweepImages(ctx)

	return infos, nil
}

// serves reports whether sandboxd lives, if that can be seen sooner than by the daemon.
func (d *Driver) serves(ctx context.Context, id string) bool {
	info, err := d.daemon(ctx)
	if err != nil || !d.local(info) {
		return true
	}

	conn, err := d.Dial(ctx, id)
	if err == nil {
		_ = conn.Close()
	}

	return !fault.Is(err, fault.SandboxLost)
}

// sweep removes a container that ended long ago or was never started. A failure is left to the next call.
func (d *Driver) sweep(ctx context.Context, c container.Summary) {
	got, err := d.docker.ContainerInspect(ctx, c.ID, client.ContainerInspectOptions{})
	if cerrdefs.IsNotFound(err) {
		return
	}

	ended := time.Unix(c.Created, 0)
	if err == nil && got.Container.State != nil {
		if at, parseErr := time.Parse(time.RFC3339Nano, got.Container.State.FinishedAt); parseErr == nil &&
			at.After(ended) {
			ended = at
		}

		if lives(got.Container.State) || time.Since(ended) < d.o.KeepDead {
			return
		}

		err = d.remove(ctx, c.ID)
	}

	if err != nil {
		d.log.Warn("a dead sandbox is not removed", "container", c.ID, "error", err)
		return
	}

	d.log.Info("removed a dead sandbox", "sandbox", c.Labels[labelSandbox], "owner", c.Labels[labelOwner])
}

// sweepFolders removes old folders of control sockets without a container.
func (d *Driver) sweepFolders(used []string) {
	entries, err := os.ReadDir(d.o.Dir)
	if err != nil {
		d.log.Warn("folder of the sandboxes", "error", err)
		return
	}

	for _, e := range entries {
		path := filepath.Join(d.o.Dir, e.Name())

		st, err := e.Info()
		if err != nil || !e.IsDir() || slices.Contains(used, path) || time.Since(st.ModTime()) < d.o.KeepDead {
			continue
		}

		if err := os.RemoveAll(path); err != nil {
			d.log.Warn("folder of a dead sandbox", "error", err)
		}
	}
}
