package docker_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/sandbox/docker"
	"github.com/rolloutd/rolloutd/internal/sandbox/docker/dockertest"
	"github.com/rolloutd/rolloutd/internal/sandbox/driver"
	"github.com/rolloutd/rolloutd/internal/sandbox/sandboxtest"
)

// The suite holds over a daemon that maps the users of containers to others of this machine. ROLLOUTD_REDTEAM runs all of it.
func TestSuiteRemapped(t *testing.T) {
	t.Parallel()
	e := dockertest.RemappedForTest(t)
	app := t.TempDir()
	require.NoError(t, sandboxtest.FillAppImage(app))
	require.NoError(t, e.Import(t.Context(), app, appImage, ""))
	require.NoError(t, e.Programs(t.Context(), testImage))
	groups := []string{"Users", "Limits", "Image"}
	if os.Getenv("ROLLOUTD_REDTEAM") != "" {
		groups = nil
	}
	o := docker.Options{Daemon: docker.Daemon{Host: e.Socket}}
	suite(t, o, groups)

	p := sandboxtest.New(t, open(t, o), driver.Spec{})
	require.Equal(t, "         0     300000      65536\n", p.Bash("cat /proc/self/uid_map").Stdout)
}
