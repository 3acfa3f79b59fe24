package e2e

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// The terminal shows the instruction, the calls with their output, and the failing command of the verifier: of an
// agent that sends its messages, and of one that continues by token ids, whose messages are in its own record.
func TestViewInTheTerminal(t *testing.T) {
	t.Parallel()
	srv := startDev(t, devOptions{})

	for continuation, tools := range map[string]string{"messages": "native", "tokens": "hermes"} {
		result := runRollout(t, srv.url, args{
			"endpoint":    "scripted",
			"agent":       rollout.AgentReact,
			"react":       args{"continuation": continuation, "tools": tools},
			"instruction": "Write binary_search.py with a function binary_search(items, target)",
			"verify":      []string{"test -f binary_search.py", "echo why it failed; test -f none"},
		})

		out, err := exec.CommandContext(t.Context(), filepath.Join(bin, "rolloutd"), "view", result.ID, "--server", srv.url).CombinedOutput()
		require.NoError(t, err, "%s", out)

		view := string(out)
		require.Contains(t, view, "── turn 1  ", continuation)
		require.Contains(t, view, "Write binary_search.py with a function binary_search(items, target)", continuation)
		require.Contains(t, view, "\n             def binary_search(items, target):\n", continuation)
		require.Contains(t, view, "  verify command 2 of 2: exit 1, ", continuation)
		require.Contains(t, view, "stdout     why it failed", continuation)
		require.Contains(t, view, "reward    0.5", continuation)

		out, err = exec.CommandContext(t.Context(), filepath.Join(bin, "rolloutd"), "view", result.ID, "--turn", "1", "--server", srv.url).CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), "── turn 1  ", continuation)
		require.NotContains(t, string(out), "── turn 2  ", continuation)
	}
}
