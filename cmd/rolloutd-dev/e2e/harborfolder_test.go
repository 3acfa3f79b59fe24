package e2e

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/image/imagetest"
)

// harborHabits is a Harbor task with what authors take for granted: the solution finds files beside it by its own path, the
// tests replace what the image has in /logs and /tests, and another program than test.sh writes the rewards. The WORKDIR of the
// image is a link. The work is also in a second place.
func harborHabits(second string) map[string]string {
	return map[string]string{
		"task.toml":      "",
		"instruction.md": "Write the answer into /app/answer and " + second + ".",
		"environment/Dockerfile": "FROM scratch\nCOPY root /\nCOPY passwd /etc/passwd\nWORKDIR /output\nCOPY stale /tests/write.sh\n" +
			"COPY stale /logs/verifier/reward.json\nCOPY stale /logs/verifier/reward.txt\nWORKDIR /app\n",
		"environment/passwd": "root:x:0:0:root:/root:/bin/bash\n",
		"environment/stale":  "1\n",
		"solution/part":      "444\n",
		"solution/solve.sh": `#!/bin/bash
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
read -r part < "$here/part"
[ "$0" = /solution/solve.sh ] && echo $part > /app/answer && echo $part > ` + second + `
`,
		"tests/want": "444\n",
		"tests/test.sh": `#!/bin/bash
rm -f /logs/verifier/reward.json /logs/verifier/reward.txt
cd "$(dirname "$0")" && ./write.sh
`,
		"tests/write.sh": `#!/bin/bash
reward=0.0
read -r want < want; read -r answer < /app/answer; read -r copy < ` + second + `
[ "$answer$copy" = "$want$want" ] && reward=1.0
echo "{\"accuracy\": $reward, \"speedup\": 4.7}" > /logs/verifier/reward.json
`,
	}
}

// A folder that follows Harbor's habits is proved as it is: its oracle earns the reward, and no work does not. The home of
// fresh tests is the verifier's own, so tests that look into the agent's need the shared mode, which the check names.
func TestHarborHabits(t *testing.T) {
	t.Parallel()

	srv := startDev(t, devOptions{env: []string{"ROLLOUTD_IMAGE_REGISTRIES=registry.invalid"}})

	for second, want := range map[string]string{
		"/output/copy":     "tasks: 1, problems: 0",
		"/logs/agent/copy": "tasks: 1, problems: 0",
		"~/copy":           "grade: shared",
	} {
		t.Run(second, func(t *testing.T) {
			t.Parallel()

			dir := filepath.Join(t.TempDir(), "task")
			writeFiles(t, dir, harborHabits(second))

			root := filepath.Join(dir, "environment/root")
			require.NoError(t, os.MkdirAll(filepath.Join(root, "srv/app"), 0o755))
			require.NoError(t, os.Symlink("srv/app", filepath.Join(root, "app")))
			require.NoError(t, errors.Join(imagetest.Fill(root, imagetest.Programs()), imagetest.Glibc(root)))
			buildTask(t, srv, dir)

			out, _ := exec.CommandContext(
				t.Context(), filepath.Join(bin, "rolloutd"), "tasks", "check", dir, "--oracle", "--nop",
				"--reward-key", "accuracy", "--server", srv.url, "--data", srv.data,
			).CombinedOutput()
			require.Contains(t, string(out), want)
		})
	}
}
