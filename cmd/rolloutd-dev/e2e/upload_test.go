package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// The command uploads the large files of a task file. The sandbox has an uploaded file before the agent
// starts, except that a file below the tests folder arrives only when grading begins.
func TestLargeUploads(t *testing.T) {
	t.Parallel()
	srv := startDev(t, devOptions{})
	dir := t.TempDir()

	size := int64(48 << 20)
	if os.Getenv("ROLLOUTD_REDTEAM") != "" {
		size = 200 << 20
	}

	large := writeRandom(t, filepath.Join(dir, "large.bin"), size)
	hidden := writeRandom(t, filepath.Join(dir, "hidden.bin"), 8<<20)
	task := filepath.Join(dir, "task.yaml")
	require.NoError(t, os.WriteFile(task, fmt.Appendf(nil, `
instruction: x
uploads: {data/large.bin: large.bin, ../tests/hidden.bin: hidden.bin}
setup: ["test ! -e ~/tests/hidden.bin"]
verify:
  - echo "%s  $HOME/workdir/data/large.bin" | sha256sum -c
  - echo "%s  $HOME/tests/hidden.bin" | sha256sum -c
`, large, hidden), 0o600))
	cmd := exec.CommandContext(
		t.Context(),
		filepath.Join(bin, "rolloutd"),
		"run",
		task,
		"--server",
		srv.url,
		"--agent",
		rollout.AgentNop,
		"--json",
	)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	require.NoError(t, err, "%s", out)

	var result rollout.Result
	require.NoError(t, json.Unmarshal(out, &result))
	require.Equal(t, rollout.Completed, result.Outcome, deref(result.Error))
	require.NotNil(t, result.Reward)
	require.InDelta(t, 1, *result.Reward, 0, "%+v", result.VerifyResults)
}

// writeRandom writes an incompressible file and returns its SHA-256 in hex.
func writeRandom(t *testing.T, path string, size int64) string {
	t.Helper()

	file, err := os.Create(path)
	require.NoError(t, err)

	sum := sha256.New()
	_, err = io.CopyN(io.MultiWriter(file, sum), rand.NewChaCha8([32]byte{1}), size)
	require.NoError(t, err)
	require.NoError(t, file.Close())

	return hex.EncodeToString(sum.Sum(nil))
}
