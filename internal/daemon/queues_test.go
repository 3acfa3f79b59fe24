package daemon_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/config"
	"github.com/rolloutd/rolloutd/internal/daemon"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Workflows use the task queue of one host only if the Temporal server is in that host's process. On a
// cluster another host can continue them.
func TestWorkflowQueue(t *testing.T) {
	t.Parallel()

	versioned := config.Defaults()

	versioned.Worker.Deployment = "rollouts"
	for name, c := range map[string]struct {
		cfg      config.Config
		roles    daemon.Roles
		embedded bool
		want     string
	}{
		"embedded":               {config.Defaults(), daemon.Roles{Serve: true, Worker: true}, true, "rolloutd-host-"},
		"embedded, no worker":    {config.Defaults(), daemon.Roles{Serve: true}, true, rollout.TaskQueue},
		"embedded, with version": {versioned, daemon.Roles{Serve: true, Worker: true}, true, rollout.TaskQueue},
		"on a cluster": {config.Defaults(), daemon.Roles{
			Serve:  true,
			Worker: true,
		}, false, rollout.TaskQueue},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			d := daemon.New(daemon.Options{Config: c.cfg, Roles: c.roles, Log: quiet()})
			if c.embedded {
				d.UseTemporal("127.0.0.1:7233", "default")
			}

			require.Equal(t, c.want, daemon.WorkflowQueue(d))
		})
	}
}
