package opencode_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/agent/agenttest"
	"github.com/rolloutd/rolloutd/internal/driver/local"
	"github.com/rolloutd/rolloutd/internal/sandbox"
)

// sandboxdPath is the path of sandboxd, which is built once for the package.
var sandboxdPath string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if dir := os.Getenv(gatewayFolder); dir != "" {
		if err := gatewayProcess(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}

		return 0
	}

	return agenttest.Main(m, &sandboxdPath)
}

func newBackend(t *testing.T, agents string) *sandbox.Backend {
	t.Helper()
	d, err := local.New(local.Options{Dir: t.TempDir(), AgentsDir: agents, SandboxdPath: sandboxdPath})
	require.NoError(t, err)

	return sandbox.New(d, sandbox.Options{})
}
