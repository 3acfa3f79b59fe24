package docker

import (
	"archive/tar"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/rolloutd/rolloutd/internal/driver/imageconfig"
	"github.com/rolloutd/rolloutd/internal/fault"
)

// repository is the name of the driver's own images.
const repository = "rolloutd-sandbox"

// labelCopies of a driver's image has the size in memory of each copied folder in bytes, as JSON.
const labelCopies = "dev.rolloutd.copies"

// derived finds or makes the image with the additions to base. The files are added through a container that
// is never started, since only an image provides files to containers with a read-only root file system. The
// image's name depends on the content. derived returns the size in memory of each filled folder, in bytes.
func (d *Driver) derived(ctx context.Context, base sandboxImage, g imageconfig.Guest) (string, []int64, error) {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %#v", base.id, d.added.sum, base.folders))

	name := repository + ":" + hex.EncodeToString(sum[:12])
	if got, err := d.docker.ImageInspect(ctx, name); err == nil {
		return name, sizesOf(got), nil
	}

	select {
	case d.making <- struct{}{}:
		defer func() { <-d.making }()
	case <-ctx.Done():
		return "", nil, fault.Wrap(fault.Unavailable, ctx.Err(), "wait to make image %s", name)
	}

	got, err := d.docker.ImageInspect(ctx, name)
	if cerrdefs.IsNotFound(err) {
		if err = d.derive(ctx, base, g, name); err == nil {
			got, err = d.docker.ImageInspect(ctx, name)
		}
	}

	return name, sizesOf(got), d.failed(err, "add sandboxd to the image")
}

// sizesOf reads labelCopies.
func sizesOf(image client.ImageInspectResult) []int64 {
	var sizes []int64
	if image.Config == nil || json.Unmarshal([]byte(image.Config.Labels[labelCopies]), &sizes) != nil {
		return nil
	}

	return sizes
}

// derive makes the image from two containers that never run: it reads one and writes files into the other.
func (d *Driver) derive(ctx context.Context, base sandboxImage, g imageconfig.Guest, name string) (err error) {
	var ids [2]string
	for n := range ids {
		id, err := d.unstarted(ctx, base)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, d.remove(context.WithoutCancel(ctx), id)) }()

		ids[n] = id
	}

	image := unstarted{ctx, d.docker, ids[0]}

	if err := g.CheckFolders(
		func(p string) (string, fs.FileMode, error) { return firstNoFolder(image, p) },
	); err != nil {
		return err
	}

	sizes, err := d.fill(ctx, ids[1], image, filled(base.folders))
	if err != nil {
		return err
	}

	label, err := json.Marshal(sizes)
	if err != nil {
		return err
	}

	_, err = d.docker.ContainerCommit(ctx, ids[1], client.ContainerCommitOptions{
		Reference: name, NoPause: true,
		Changes: []string{"LABEL " + labelImage + "=" + base.id, "LABEL " + labelCopies + "=" + string(label)},
	})

	return err
}

// errTaken ends the writer when the engine stops reading.
var errTaken = errors.New("the engine stopped reading")

// fill writes the layer for an image into a container.
func (d *Driver) fill(ctx context.Context, containerID string, image view, copied []folder) ([]int64, error) {
	in, out := io.Pipe()

	var sizes []int64

	written := make(chan error, 1)
	// ends with in
	go func() {
		var err error

		sizes, err = d.added.write(out, image, copied)
		out.CloseWithError(err)

		written <- err
	}()

	_, err := d.docker.CopyToContainer(ctx, containerID, client.CopyToContainerOptions{
		DestinationPath: "/", Content: in, AllowOverwriteDirWithFile: true, // including a link by a folder
	})
	in.CloseWithError(errTaken)

	if writeErr := <-written; writeErr != nil && !errors.Is(writeErr, errTaken) {
		return nil, writeErr
	}

	return sizes, err
}

// unstarted creates a container of the image that never runs.
func (d *Driver) unstarted(ctx context.Context, base sandboxImage) (string, error) {
	c, err := d.docker.ContainerCreate(ctx, client.ContainerCreateOptions{
		Name: "rolloutd-" + d.owner + "-image-" + strings.ToLower(rand.Text()[:8]),
		Config: &container.Config{
			Image:      base.id,
			Entrypoint: []string{sandboxdPath},
			Labels:     map[string]string{labelSandbox: "", labelOwner: d.owner, labelState: "{}"},
		},
		HostConfig: &container.HostConfig{NetworkMode: "none"},
	})

	return c.ID, err
}

// unstarted is a view of a container that never ran.
type unstarted struct {
	ctx    context.Context
	docker *client.Client
	id     string
}

func (c unstarted) stat(path string) (fs.FileMode, bool, error) {
	got, err := c.docker.ContainerStatPath(c.ctx, c.id, client.ContainerStatPathOptions{Path: path})
	if cerrdefs.IsNotFound(err) {
		return 0, false, nil
	}

	return got.Stat.Mode, true, err
}

// link returns where a link leads in the image, without further links; "": the path is no link.
func (c unstarted) link(path string) (string, error) {
	got, err := c.docker.ContainerStatPath(c.ctx, c.id, client.ContainerStatPathOptions{Path: path})
	if cerrdefs.IsNotFound(err) {
		return "", nil
	}

	return got.Stat.LinkTarget, err
}

func (c unstarted) tree(path string) (io.ReadCloser, error) {
	got, err := c.docker.CopyFromContainer(c.ctx, c.id, client.CopyFromContainerOptions{SourcePath: path})
	return got.Content, err
}

// maxAccounts bounds a file of accounts, in bytes.
const maxAccounts = 1 << 20

func (c unstarted) text(path string) (string, error) {
	data, err := c.file(path, maxAccounts)
	if errors.Is(err, fs.ErrNotExist) || fault.Is(err, fault.Invalid) {
		return "", nil
	}

	return string(data), err
}

// file reads a regular file. A missing one is an fs.ErrNotExist; a larger one is a fault.Invalid.
func (c unstarted) file(path string, most int64) ([]byte, error) {
	got, err := c.docker.CopyFromContainer(c.ctx, c.id, client.CopyFromContainerOptions{SourcePath: path})
	if cerrdefs.IsNotFound(err) {
		return nil, fmt.Errorf("%s of the image: %w", path, fs.ErrNotExist)
	}

	if err != nil {
		return nil, err
	}

	defer got.Content.Close()

	r := tar.NewReader(got.Content)

	h, err := r.Next()
	switch {
	case err != nil:
		return nil, err
	case h.Typeflag != tar.TypeReg:
		return nil, fmt.Errorf("%s of the image: %w", path, fs.ErrNotExist)
	case h.Size > most:
		return nil, fault.New(fault.Invalid, "%s of the image has more than %d bytes", path, most)
	}

	return io.ReadAll(io.LimitReader(r, most))
}
