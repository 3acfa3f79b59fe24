package image_test

import (
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
