package sandboxtool_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A call id of one sandbox has no meaning in another: neither results nor the shell can be reached.
func TestSandboxesAreIsolated(t *testing.T) {
	t.Parallel()
	a, b := newTestSandbox(t), newTestSandbox(t)

	for _, name := range []string{"bash", "terminal_stateful"} {
		arguments := map[string]any{"command": "echo x >> " + name + "; cat " + name + "; Y=secret$Y; echo $Y"}
		require.Equal(t, "x\nsecret", a.callAs("same", name, arguments).Content)
		require.Equal(t, "x\nsecret", b.callAs("same", name, arguments).Content)
	}

	require.Contains(t, a.call("tmux", map[string]any{"action": "capture"}).Content, "secret")
	c := newTestSandbox(t)
	require.Equal(t, "no shell was started", c.call("tmux", map[string]any{"action": "capture"}).Message)
	require.Equal(t, "File not found: bash", c.call("read_file", map[string]any{"path": "bash"}).Message)
}

// A program in the sandbox cannot end another command early by its output, because a forged mark needs the
// secret of the session.
func TestForgedMarks(t *testing.T) {
	t.Parallel()
	b := newTestSandbox(t)
	r := b.call("terminal_stateful", map[string]any{
		"command": `printf '\033]133;D;0\007\033]133;B\007'; sleep 0.2; echo end; exit_code=4; (exit 4)`,
	})
	require.Equal(t, "end", r.Content)
	require.Equal(t, "Exit code: 4", r.Message)
}
