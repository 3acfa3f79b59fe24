package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// The test runs the command of `make demo`. It prints the phases as they happen, the result and the
// addresses, and runs until it is interrupted. It then exits with status 0 and leaves no process running.
func TestDemo(t *testing.T) {
	t.Parallel()

	script, err := os.ReadFile(filepath.Join("..", "..", "..", "internal", "scripted", "demo.yaml"))
	require.NoError(t, err)
	// the agent runs until the test has seen its processes
	model, _, release := heldModel(t, string(script))
	srv := startDev(t, devOptions{
		modelURL: model,
		flags:    []string{"--demo", filepath.Join("..", "..", "..", "examples", "binary_search.yaml")},
	})
	said := func() string {
		text, err := os.ReadFile(srv.log)
		require.NoError(t, err)

		return string(text)
	}
	awaitSaid := func(text string) {
		require.Eventually(
			t,
			func() bool { return strings.Contains(said(), text) },
			5*time.Minute,
			200*time.Millisecond,
			"%s",
			text,
		)
	}
	awaitSaid("running the agent")

	var workflows []string

	require.Eventually(
		t,
		func() bool { workflows = srv.workflows(t); return len(workflows) > 0 },
		5*time.Minute,
		200*time.Millisecond,
		"no workflow is listed",
	)
	require.Len(t, workflows, 1)
	id := strings.TrimPrefix(workflows[0], rollout.WorkflowID(""))
	require.NotEmpty(t, processesNaming(t, id), "the search for what is left is blind")
	release()
	awaitSaid("run another")

	for _, want := range []string{"OpenEnv server", "Temporal UI", "Metrics", "running the agent", "grading in a fresh sandbox", "reward    1", "outcome   completed", "binary_search.py"} {
		require.Contains(t, said(), want)
	}

	srv.stop(t)
	require.Equal(t, 0, srv.cmd.ProcessState.ExitCode())
	require.Empty(t, srv.sandboxes(t))
	require.Empty(t, processesNaming(t, srv.data))
	require.Empty(t, processesNaming(t, id))
}
