package docker

import (
	"context"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/client"
)

// imageLook is the time between two looks for old images of ours.
const imageLook = time.Hour

// sweepImages removes images of ours that were made long ago and that no container uses, whichever host made them. One that is needed later is made
// again. The names of all of them are in a repository of their own, so no other image can be removed.
func (d *Driver) sweepImages(ctx context.Context) {
	if !d.mayLook() {
		return
	}
	all, err := d.docker.ImageList(ctx, client.ImageListOptions{Filters: client.Filters{}.Add("reference", repository).Add("label", labelImage)})
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

// mayLook says whether the last look is long enough ago, and notes that there is one now.
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
