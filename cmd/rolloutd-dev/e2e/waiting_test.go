package e2e

import (
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
	"github.com/rolloutd/rolloutd/internal/sandbox/local"
)

// The agent of a rollout is stopped while it waits for a reply, and works on when the reply comes.
func TestAgentIsStoppedWhileItWaits(t *testing.T) {
	t.Parallel()
	gate := startGate(t, agesScript(1, 0))
	srv := startDev(t, devOptions{modelURL: gate.url})
	id := start(t, srv.url, args{"instruction": "take ages", "endpoint": "scripted", "verify": []string{"test $(wc -l < log.txt) -eq 1"}})
	waitFor(t, srv.url, id, "a turn", func(s state) bool { return s.Turns > 0 })
	srv.waitForStopped(t, id)
	gate.open()
	result := finalize(t, srv.url, id)
	require.Equal(t, rollout.Completed, result.Outcome, deref(result.Error))
	require.InDelta(t, 1.0, *result.Reward, 0)
	require.Len(t, result.Attempts, 1)
	require.Len(t, result.ProxyTurns, 2)
	require.Equal(t, 1, srv.agentStarts(t, result))
}

// waitForStopped waits until the agent of a rollout's first attempt is stopped.
func (d site) waitForStopped(t testing.TB, id string) {
	t.Helper()
	driver, err := local.New(local.Options{
		Dir: filepath.Join(d.data, "sandboxes"), AgentsDir: agents, SandboxdPath: filepath.Join(bin, "sandboxd"), Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	box, err := sandbox.New(driver, sandbox.Options{}).Attach(t.Context(), id+".1")
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		st, err := box.Status(t.Context(), agent.ProcessName(1))
		require.NoError(t, err)
		return st.Paused
	}, 5*time.Minute, 100*time.Millisecond, "the agent is stopped")
}
