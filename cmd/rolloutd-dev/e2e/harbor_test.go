package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/testkit/pyclient"
)

// The published client of OpenEnv's Harbor environment runs a Harbor task folder with the real OpenCode,
// from the Task API to the reward. TRL's worker reads the result and skips a lost rollout.
func TestHarborClient(t *testing.T) {
	t.Parallel()

	tasks := t.TempDir()
	for name, text := range map[string]string{
		"fix/task.toml":               "version = \"1.0\"\n[agent]\ntimeout_sec = 120.0\n",
		"fix/instruction.md":          "Write the sum of numbers.txt into sum.txt.\n",
		"fix/environment/numbers.txt": "1\n2\n",
		"fix/tests/test.sh":           "[ \"$(cat sum.txt)\" = 3 ] && echo 1 > /home/user/logs/verifier/reward.txt || echo 0 > /home/user/logs/verifier/reward.txt\n",
	} {
		file := filepath.Join(tasks, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o750))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}

	srv := startDev(t, devOptions{
		script: `
- match: Write the sum
  turns:
    - tool_calls: [{name: bash, arguments: {command: "awk '{s += $1} END {print s}' numbers.txt > sum.txt", description: "Sum"}}]
    - text: Done.
`,
		flags: []string{"--config", configFile(t, fmt.Sprintf(`
task_sets: {sums: {path: %q}}
environments:
  harbor: {arguments: {endpoint: scripted}}
`, tasks))},
	})
	edge := filepath.Join("..", "..", "..", "envserver", "testdata", "py")
	pyclient.Interpreter(t, pyclient.Trainer()).Run(t, filepath.Join("testdata", "harbor.py"), srv.url, edge)
	require.Empty(t, srv.sandboxes(t))
}
