package docker

import (
	"context"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/client"
)

// imageLook is the interval between searches for old images.
const imageLook = time.Hour

// sweepImages removes the driver's old images that no container uses, of every host. An image is made again
// when it is needed. The driver's images have a repository of their own, so no other image is removed.
func (d *Driver) sweepImages(ctx context.Context) {
	if !d.mayLook() {
		return
	}

	all, err := d.docker.ImageList(
		ctx,
		client.ImageListOptions{Filters: client.Filters{}.Add("reference", repository).Add("label", labelImage)},
	)
	if err != nil {
		d.log.Warn("list old images", "error", err)
		return
	}

	for _, image := range all.Items {
		if time.Since(time.Unix(image.Created, 0)) < d.o.KeepImages {
			continue
		}

		for _, name := range image.RepoTags {
			if strings.HasPrefix(name, repository+":") {
				d.removeImage(ctx, name)
			}
		}
	}
}

// mayLook reports whether a search is due, and starts the next interval.
func (d *Driver) mayLook() bool {
	d.mu.Lock()
	defer d.mu.Unlock()

	if time.Since(d.looked) < min(imageLook, d.o.KeepImages) {
		return false
	}

	d.looked = time.Now()

	return true
}

// removeImage removes an image unless a container uses it.
func (d *Driver) removeImage(ctx context.Context, name string) {
	_, err := d.docker.ImageRemove(ctx, name, client.ImageRemoveOptions{PruneChildren: true})
	switch {
	case cerrdefs.IsConflict(err) || cerrdefs.IsNotFound(err):
	case err != nil:
		d.log.Warn("an old image is not removed", "image", name, "error", err)
	default:
		d.log.Info("removed an old image", "image", name)
	}
}
