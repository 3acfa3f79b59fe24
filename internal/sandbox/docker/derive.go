package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// repository names the images that the driver makes.
const repository = "rolloutd-sandbox"

// derived finds the image with what is added to base, or makes it: a container that is never started takes the files, since only an
// image gives them to containers whose root file system is read-only. It returns the name, which tells the content.
func (d *Driver) derived(ctx context.Context, base found) (string, error) {
	sum := sha256.Sum256([]byte(base.id + " " + d.added.sum))
	name := repository + ":" + hex.EncodeToString(sum[:12])
	if _, err := d.docker.ImageInspect(ctx, name); err == nil {
		return name, nil
	}
	select {
	case d.making <- struct{}{}:
		defer func() { <-d.making }()
	case <-ctx.Done():
		return "", fault.Wrap(fault.Unavailable, ctx.Err(), "wait to make image %s", name)
	}
	_, err := d.docker.ImageInspect(ctx, name)
	if cerrdefs.IsNotFound(err) {
		err = d.derive(ctx, base, name)
	}
	return name, d.failed(err, "add sandboxd to the image")
}

func (d *Driver) derive(ctx context.Context, base found, name string) (err error) {
	c, err := d.docker.ContainerCreate(ctx, client.ContainerCreateOptions{
		Name: "rolloutd-" + d.owner + "-image-" + strings.ToLower(rand.Text()[:8]),
		Config: &container.Config{
			Image: base.id, Entrypoint: []string{sandboxdPath}, Labels: map[string]string{labelSandbox: "", labelOwner: d.owner, labelState: "{}"},
		},
		HostConfig: &container.HostConfig{NetworkMode: "none"},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.remove(context.WithoutCancel(ctx), c.ID)) }()
	var layer bytes.Buffer // as a whole, since a container cannot be read while it takes files
	if err := d.added.write(&layer, unstarted{ctx, d.docker, c.ID}); err != nil {
		return err
	}
	if _, err := d.docker.CopyToContainer(ctx, c.ID, client.CopyToContainerOptions{DestinationPath: "/", Content: &layer}); err != nil {
		return err
	}
	_, err = d.docker.ContainerCommit(ctx, c.ID, client.ContainerCommitOptions{
		Reference: name, NoPause: true, Changes: []string{"LABEL " + labelImage + "=" + base.id},
	})
	return err
}

// unstarted is a view of a container that never ran.
type unstarted struct {
	ctx    context.Context
	docker *client.Client
	id     string
}

func (c unstarted) has(path string) (bool, error) {
	_, err := c.docker.ContainerStatPath(c.ctx, c.id, client.ContainerStatPathOptions{Path: path})
	if cerrdefs.IsNotFound(err) {
		return false, nil
	}
	return true, err
}

// maxAccounts bounds a file of accounts, in bytes.
const maxAccounts = 1 << 20

// text reads a regular file; "" where there is none, or one that is too long.
func (c unstarted) text(path string) (string, error) {
	got, err := c.docker.CopyFromContainer(c.ctx, c.id, client.CopyFromContainerOptions{SourcePath: path})
	if cerrdefs.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer got.Content.Close()
	r := tar.NewReader(got.Content)
	h, err := r.Next()
	if err != nil || h.Typeflag != tar.TypeReg || h.Size > maxAccounts {
		return "", err
	}
	data, err := io.ReadAll(io.LimitReader(r, maxAccounts))
	return string(data), err
}
