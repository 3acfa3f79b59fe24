package docker_test

import (
	"testing"
	"time"

	"github.com/moby/moby/client"
	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/driver/docker"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
)

// An old sandbox image is removed when no container uses it, and built again for the next sandbox. The test
// is not parallel because it also removes the images of other tests.
func TestOldImagesAreRemoved(t *testing.T) {
	made := func() int {
		t.Helper()
		all, err := engine(t).Client.ImageList(
			t.Context(),
			client.ImageListOptions{Filters: client.Filters{}.Add("reference", "rolloutd-sandbox")},
		)
		require.NoError(t, err)

		return len(all.Items)
	}
	opened := func(keep time.Duration) *sandbox.Backend {
		d := open(t, docker.Options{KeepImages: keep})
		return sandbox.New(d, sandbox.Options{Defaults: driver.Spec{HomeMiB: 64, TmpMiB: 16, MemoryMiB: 512}})
	}
	list := func(b *sandbox.Backend) {
		t.Helper()
		_, err := b.List(t.Context())
		require.NoError(t, err)
	}
	create := func(b *sandbox.Backend, id string) {
		t.Helper()
		_, err := b.Create(t.Context(), id, rollout.Sandbox{}, nil)
		require.NoError(t, err)
	}
	patient, hasty := opened(time.Hour), opened(time.Nanosecond)
	list(hasty)
	// by other sandboxes
	used := made()

	create(patient, "user")
	require.Equal(t, used+1, made())
	list(patient)
	list(hasty)
	require.Equal(t, used+1, made(), "a container uses it")
	require.NoError(t, patient.Destroy(t.Context(), "user"))
	list(patient)
	require.Equal(t, used+1, made(), "it is not old")
	list(hasty)
	require.Equal(t, used, made())
	_, err := engine(t).Client.ImageInspect(t.Context(), testImage)
	require.NoError(t, err, "the image that it was made of stays")
	create(patient, "next")
	require.Equal(t, used+1, made())
	require.NoError(t, patient.Destroy(t.Context(), "next"))
}
