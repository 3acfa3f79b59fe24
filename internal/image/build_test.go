package image_test

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/image"
)

// A folder without a Dockerfile is refused before a builder is asked, also where the job names no file.
func TestBuildWithoutADockerfile(t *testing.T) {
	t.Parallel()

	_, err := image.Build(t.Context(), nil, image.BuildJob{Folder: t.TempDir(), Name: "example:1"})
	require.True(t, fault.Is(err, fault.NotFound), "%v", err)
	require.ErrorContains(t, err, "Dockerfile")
}

// A failure of Docker names what its client lacks without BuildKit, and the daemon is the job's.
func TestBuildWithDocker(t *testing.T) {
	folder, programs := t.TempDir(), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "Dockerfile"), []byte("FROM scratch\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(programs, "docker"), []byte(`#!/bin/sh
case "$DOCKER_HOST $1" in
"unix:///d version") ;;
"unix:///d images") if [ "$3" = here:1 ]; then echo 1a2b; fi ;;
*) exit 1 ;;
esac
`), 0o700))
	t.Setenv("PATH", programs+":/usr/bin:/bin")

	env := []string{"DOCKER_HOST=unix:///d"}

	_, err := image.Build(t.Context(), nil, image.BuildJob{Folder: folder, Name: "a:1", DockerEnv: env, Output: io.Discard})
	require.ErrorContains(t, err, "build with docker, whose client lacks the plugin buildx")

	require.True(t, image.DockerLacks(t.Context(), "there:1", env))
	require.False(t, image.DockerLacks(t.Context(), "here:1", env))
	require.False(t, image.DockerLacks(t.Context(), "there:1", []string{"DOCKER_HOST=unix:///other"}))
}
