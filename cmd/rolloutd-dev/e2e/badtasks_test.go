package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each bad task of a set is named with what is wrong with it, and the others go on.
func TestBadTasksOfASet(t *testing.T) {
	t.Parallel()

	const (
		test  = "#!/bin/bash\n[ \"$(< /home/user/workdir/word)\" = heron ] && r=1; echo ${r:-0} > /home/user/logs/verifier/reward.txt\n"
		solve = "#!/bin/bash\necho heron > /home/user/workdir/word\n"
	)

	srv := startDev(t, devOptions{})
	dir := t.TempDir()

	for name, changes := range map[string]map[string]string{
		"good":  nil,
		"names": {"tests/a\nb": "x"},
		"base":  {"environment/Dockerfile": "FROM 127.0.0.1:1/none:1\n"},
		"hangs": {"solution/solve.sh": "sleep infinity\n", "task.toml": "[agent]\ntimeout_sec = 2\n"},
		"health": {
			"task.toml": "[environment.healthcheck]\ncommand = \"echo asleep; false\"\nretries = 1\nstart_period_sec = 0\ninterval_sec = 0.1\n",
		},
		"steps":   {"task.toml": "[[steps]]\nname = \"one\"\n", "steps/one/instruction.md": "x", "tests/test.sh": "-"},
		"rewards": {"tests/test.sh": "echo '[1]' > /home/user/logs/verifier/reward.json\n"},
		"nan":     {"tests/test.sh": "echo '{\"reward\": NaN}' > /home/user/logs/verifier/reward.json\n"},
	} {
		files := map[string]string{
			"task.toml": "", "instruction.md": "Write heron.", "tests/test.sh": test, "solution/solve.sh": solve,
		}
		for file, text := range changes {
			files[file] = text
		}

		for file, text := range files {
			if text == "-" {
				continue
			}

			full := filepath.Join(dir, name, file)
			require.NoError(t, os.MkdirAll(filepath.Dir(full), 0o755))
			require.NoError(t, os.WriteFile(full, []byte(text), 0o600))
		}
	}

	cmd := exec.CommandContext(
		t.Context(), filepath.Join(bin, "rolloutd"), "tasks", "check", dir, "--oracle", "--server", srv.url, "--data", srv.data,
	)
	// without a Docker daemon, which would ask the registry itself
	cmd.Env = append(os.Environ(), "DOCKER_HOST=unix:///nonexistent", "ROLLOUTD_IMAGE_REGISTRIES=127.0.0.1:1")

	out, err := cmd.CombinedOutput()
	require.Error(t, err)

	for _, want := range []string{
		"Dockerfile:1: FROM 127.0.0.1:1/none:1: ", "connection refused",
		"hangs: oracle: agent_timeout: the agent did not end within 2s",
		"health: oracle: setup_failed: ", "task.toml: environment.healthcheck failed 1 times",
		"steps/one/tests/test.sh: is missing",
		"rewards: oracle: verifier_failed: reward.json holds ", "nan: oracle: verifier_failed: reward.json holds ",
		// good, and names, whose file has a name of two lines
		"tasks: 8, problems: 6",
	} {
		require.Contains(t, string(out), want)
	}
}
