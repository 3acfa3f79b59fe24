package grading_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/driver/docker"
	"github.com/rolloutd/rolloutd/internal/driver/docker/dockertest"
	"github.com/rolloutd/rolloutd/internal/image/imagetest"
)

// containerImage has this machine's programs and its Python.
const containerImage = "python:1"

// programsOfVerifiers are those of this machine that verifiers and cheats use.
func programsOfVerifiers() []string {
	return []string{"chown", "cmp", "diff", "git", "nice", "pkill", "printf", "setpriv", "timeout"}
}

// containers creates sandboxes of containerImage in a Docker daemon that belongs to the test.
func containers(t *testing.T, engine *dockertest.Engine) driver.Driver {
	t.Helper()
	root := t.TempDir()
	require.NoError(t, imagetest.Fill(root, append(programsOfVerifiers(), imagetest.Programs()...)))
	require.NoError(t, errors.Join(imagetest.Glibc(root), imagetest.Python(root)))
	require.NoError(t, engine.Import(t.Context(), root, containerImage, ""))
	d, err := docker.New(docker.Options{
		Dir:          t.TempDir(),
		BridgeDir:    t.TempDir(),
		SandboxdPath: sandboxdPath,
		Image:        containerImage,
		Daemon:       docker.Daemon{Host: engine.Socket},
	})
	require.NoError(t, err)

	return d
}
