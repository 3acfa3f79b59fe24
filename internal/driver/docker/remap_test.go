package docker_test

import (
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/driver/docker"
	"github.com/rolloutd/rolloutd/internal/driver/docker/dockertest"
	"github.com/rolloutd/rolloutd/internal/sandbox/sandboxtest"
)

// The suite passes over a daemon that maps the users of containers to other users of this machine.
// ROLLOUTD_REDTEAM runs all of it.
func TestSuiteRemapped(t *testing.T) {
	t.Parallel()
	e := dockertest.RemappedForTest(t)
	app, users := t.TempDir(), t.TempDir()
	require.NoError(t, errors.Join(sandboxtest.FillAppImage(app), sandboxtest.FillUsersImage(users)))
	require.NoError(t, e.Import(t.Context(), app, appImage, ""))
	require.NoError(
		t,
		e.Import(
			t.Context(),
			users,
			usersImage,
			"",
			"USER "+sandboxtest.UsersImageUser,
			"WORKDIR "+sandboxtest.UsersImageWorkdir,
		),
	)
	require.NoError(t, e.Programs(t.Context(), testImage))

	groups := []string{"Users", "Limits", "Image", "Accounts"}
	if os.Getenv("ROLLOUTD_REDTEAM") != "" {
		groups = nil
	}

	o := docker.Options{Daemon: docker.Daemon{Host: e.Socket}}
	suite(t, o, sandboxtest.Harness{Groups: groups, UsersImage: usersImage})

	t.Run("AsRoot", func(t *testing.T) {
		t.Parallel()

		groups := []string{"Files", "Kill", "Limits"}
		if os.Getenv("ROLLOUTD_REDTEAM") != "" {
			groups = sandboxtest.RootGroups()
		}

		o := o
		o.Dir, o.BridgeDir = t.TempDir(), t.TempDir()
		sandboxtest.Run(t, sandboxtest.Harness{
			Open: func(t *testing.T) driver.Driver { return sandboxtest.AsRoot{Driver: open(t, o), Image: testImage} },
			Root: true, Groups: groups,
		})
	})
	p := sandboxtest.New(t, open(t, o), driver.Spec{})
	require.Equal(t, "         0     300000      65536\n", p.Bash("cat /proc/self/uid_map").Stdout)
}
