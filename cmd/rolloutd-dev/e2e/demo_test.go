package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What `make demo` runs: one command, the phases as they happen, the result, the addresses; it stays up until it is
// interrupted, ends with status 0 and leaves no process behind.
func TestDemo(t *testing.T) {
	t.Parallel()
	srv := startDev(t, devOptions{flags: []string{"--demo", filepath.Join("..", "..", "..", "examples", "binary_search.yaml")}})
	said := func() string {
		text, err := os.ReadFile(srv.log)
		require.NoError(t, err)
		return string(text)
	}
	require.Eventually(t, func() bool { return strings.Contains(said(), "ready for more") }, 90*time.Second, 50*time.Millisecond, "%s", said())
	for _, want := range []string{"OpenEnv server", "Temporal UI", "Metrics", "agent at work", "grading in a fresh sandbox", "reward    1", "outcome   completed", "binary_search.py"} {
		require.Contains(t, said(), want)
	}
	srv.stop(t)
	require.Equal(t, 0, srv.cmd.ProcessState.ExitCode())
	require.Empty(t, srv.sandboxes(t))
	require.Empty(t, processesNaming(t, srv.data))
}
