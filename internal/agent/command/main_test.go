package command_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/agent/agenttest"
	"github.com/rolloutd/rolloutd/internal/agent/command"
	"github.com/rolloutd/rolloutd/internal/driver/local"
	"github.com/rolloutd/rolloutd/internal/sandbox"
)

// sandboxdPath is the path of sandboxd, which is built once for the package.
var sandboxdPath string

func TestMain(m *testing.M) { os.Exit(agenttest.Main(m, &sandboxdPath)) }

// newBackend returns a backend whose sandboxes mount a folder of agents; "" mounts none.
func newBackend(t *testing.T, agents string) *sandbox.Backend {
	t.Helper()
	d, err := local.New(local.Options{Dir: t.TempDir(), AgentsDir: agents, SandboxdPath: sandboxdPath})
	require.NoError(t, err)

	return sandbox.New(d, sandbox.Options{})
}

// agentsDir returns the folder that keeps downloads between test runs.
func agentsDir(t *testing.T) string {
	t.Helper()

	if dir := os.Getenv("ROLLOUTD_TEST_AGENTS"); dir != "" {
		return dir
	}

	cache, err := os.UserCacheDir()
	require.NoError(t, err)

	return filepath.Join(cache, "rolloutd-test", "agents")
}

func newAgent(t *testing.T, s command.Spec, o command.Options) *command.Agent {
	t.Helper()

	a, err := command.New(s, o)
	require.NoError(t, err)

	return a
}
