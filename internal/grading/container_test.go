package grading_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/image/imagetest"
	"github.com/rolloutd/rolloutd/internal/sandbox/docker"
	"github.com/rolloutd/rolloutd/internal/sandbox/docker/dockertest"
	"github.com/rolloutd/rolloutd/internal/sandbox/driver"
)

// containers makes sandboxes in a Docker daemon of the test's own, with this machine's programs and its Python.
func containers(t *testing.T) driver.Driver {
	t.Helper()
	engine := dockertest.ForTest(t)
	root := t.TempDir()
	require.NoError(t, imagetest.Fill(root, append([]string{"diff", "pkill", "printf"}, imagetest.Programs()...)))
	require.NoError(t, errors.Join(imagetest.Glibc(root), imagetest.Python(root)))
	require.NoError(t, engine.Import(t.Context(), root, "python:1", ""))
	d, err := docker.New(docker.Options{
		Dir: t.TempDir(), BridgeDir: t.TempDir(), SandboxdPath: sandboxdPath, Image: "python:1", Daemon: docker.Daemon{Host: engine.Socket},
	})
	require.NoError(t, err)
	return d
}
