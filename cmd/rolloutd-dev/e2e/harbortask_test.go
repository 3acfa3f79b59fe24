package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/taskset"
)

// writeFiles writes files into a folder. Each may be run.
func writeFiles(t *testing.T, dir string, files map[string]string) {
	t.Helper()

	for name, text := range files {
		full := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(full), 0o755))
		require.NoError(t, os.WriteFile(full, []byte(text), 0o755))
	}
}

// buildTask builds the images of the task in a folder, and returns it.
func buildTask(t *testing.T, srv *dev, dir string) taskset.Task {
	t.Helper()

	out, err := exec.CommandContext(t.Context(), filepath.Join(bin, "rolloutd"), "tasks", "build", dir, "--data", srv.data).
		CombinedOutput()
	require.NoError(t, err, "%s", out)

	set, err := taskset.Open(dir)
	require.NoError(t, err)
	t.Cleanup(func() { _ = set.Close() })

	task, err := set.Task(0)
	require.NoError(t, err)

	return task
}
