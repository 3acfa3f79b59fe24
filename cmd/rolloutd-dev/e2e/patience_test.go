package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/testkit/jsclient"
	"github.com/rolloutd/rolloutd/internal/testkit/pyclient"
)

// The published clients with their default settings wait for rollouts that take ten minutes, all at the
// same time. `deploy/suite.sh patience` runs the test.
func TestClientsWaitAsLongAsRolloutsTake(t *testing.T) {
	wait, err := time.ParseDuration(os.Getenv("ROLLOUTD_TEST_PATIENCE"))
	if err != nil {
		t.Skip("set ROLLOUTD_TEST_PATIENCE=10m, as deploy/suite.sh patience does")
	}

	tasks := filepath.Join(t.TempDir(), "tasks")
	for name, text := range map[string]string{
		"wait/task.toml": "version = \"1.0\"\n", "wait/instruction.md": "Take your time.\n",
		"wait/tests/test.sh": "echo 1 > /home/user/logs/verifier/reward.txt\n",
	} {
		file := filepath.Join(tasks, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o750))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}

	srv := startDev(t, devOptions{
		script: fmt.Sprintf("- match: Take your time\n  turns: [{text: Done., pace: {delay: %s}}]\n", wait),
		flags: []string{"--config", configFile(t, fmt.Sprintf(`
task_sets: {waiting: {path: %q}}
environments:
  harbor: {arguments: {endpoint: scripted, limits: {call_s: %d}}}
`, tasks, int((wait+10*time.Minute).Seconds())))},
	})
	seconds := strconv.Itoa(int(wait.Seconds()))

	t.Run("clients", func(t *testing.T) {
		t.Run("python", func(t *testing.T) {
			t.Parallel()

			edge := filepath.Join("..", "..", "..", "envserver", "testdata", "py")
			python := pyclient.Interpreter(t, pyclient.Trainer()).WithPackage(t)
			python.Run(t, filepath.Join("testdata", "patience.py"), srv.url, seconds, edge)
		})
		t.Run("second MCP client in python", func(t *testing.T) {
			t.Parallel()
			pyclient.Interpreter(t, pyclient.MCP2()).
				Run(t, filepath.Join("testdata", "patience_mcp2.py"), srv.url, seconds)
		})

		for pkg, script := range map[string]string{jsclient.MCP: "patience.mjs", jsclient.MCP2: "patience_mcp2.mjs"} {
			t.Run(script, func(t *testing.T) {
				t.Parallel()
				jsclient.Run(t, pkg, filepath.Join("testdata", script), srv.url, seconds)
			})
		}
	})
}
