package dockertest

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/rolloutd/rolloutd/internal/image/imagetest"
)

// trial is the image for trying the daemon.
const trial = "dockertest-trial"

// try runs a container with limits: the machine may not allow the daemon cgroups or mounts.
func (e *Engine) try(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()

	dir, err := os.MkdirTemp(e.dir, "trial")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)

	if err := imagetest.Fill(dir, []string{"true"}); err != nil {
		return err
	}

	if err := e.Import(ctx, dir, trial, ""); err != nil {
		return err
	}

	pids := int64(100)

	c, err := e.Client.ContainerCreate(ctx, client.ContainerCreateOptions{
		Config: &container.Config{Image: trial, Cmd: []string{"true"}},
		HostConfig: &container.HostConfig{
			NetworkMode:    "none",
			ReadonlyRootfs: true,
			Resources:      container.Resources{Memory: 64 << 20, NanoCPUs: 1e9, PidsLimit: &pids},
		},
	})
	if err != nil {
		return err
	}

	waiting := e.Client.ContainerWait(
		ctx,
		c.ID,
		client.ContainerWaitOptions{Condition: container.WaitConditionNextExit},
	)
	if _, err = e.Client.ContainerStart(ctx, c.ID, client.ContainerStartOptions{}); err == nil {
		select {
		case end := <-waiting.Result:
			if end.StatusCode != 0 {
				err = fmt.Errorf("exit status %d", end.StatusCode)
			}
		case err = <-waiting.Error:
		}
	}

	_, removeErr := e.Client.ContainerRemove(ctx, c.ID, client.ContainerRemoveOptions{Force: true})

	return errors.Join(err, removeErr)
}

// Import makes an image of the root file system in dir, for the architecture of this machine if arch is empty.
func (e *Engine) Import(ctx context.Context, dir, name, arch string, changes ...string) error {
	in, out := io.Pipe()
	// ends with in
	go func() {
		w := tar.NewWriter(out)
		out.CloseWithError(errors.Join(w.AddFS(os.DirFS(dir)), w.Close()))
	}()

	defer in.Close()

	o := client.ImageImportOptions{Changes: changes}
	if arch != "" {
		o.Platform = ocispec.Platform{OS: "linux", Architecture: arch}
	}

	done, err := e.Client.ImageImport(ctx, client.ImageImportSource{Source: in, SourceName: "-"}, name, o)
	if err != nil {
		return err
	}

	_, err = io.Copy(io.Discard, done)

	return errors.Join(err, done.Close())
}

// Programs makes an image with the programs that the driver suite needs, and others.
func (e *Engine) Programs(ctx context.Context, name string, others ...string) error {
	dir, err := os.MkdirTemp(e.dir, "image")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)

	if err := errors.Join(
		imagetest.Fill(dir, append(imagetest.Programs(), others...)),
		imagetest.Glibc(dir),
	); err != nil {
		return err
	}

	if err := os.MkdirAll(filepath.Join(dir, "etc"), 0o755); err != nil {
		return err
	}

	if err := os.WriteFile(
		filepath.Join(dir, "etc/passwd"),
		[]byte("root:x:0:0:root:/root:/bin/bash\n"),
		0o644,
	); err != nil {
		return err
	}

	return e.Import(ctx, dir, name, "", "ENV FROM_IMAGE=yes")
}
