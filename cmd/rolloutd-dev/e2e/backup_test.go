package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// A copy of the data folder of an ended rolloutd-dev has all that it had: docs/deployment.md#backup.
func TestBackup(t *testing.T) {
	t.Parallel()

	srv := startDev(t, devOptions{script: reactScript})
	ended := runRollout(t, srv.url, reactArgs())
	require.Equal(t, rollout.Completed, ended.Outcome, deref(ended.Error))

	at := func(s *dev, what string) string { return get(t, s.url+"/rollouts/"+ended.ID+what) }
	result, trajectory, trace := at(srv, "/result"), at(srv, "/trajectory"), at(srv, "/trace")

	a := reactArgs()
	a["agent"], a["solution"], a["verify"] = rollout.AgentOracle, []string{"sleep 5; echo x > done"}, []string{"test -e done"}
	running := start(t, srv.url, a)
	waitFor(t, srv.url, running, "the agent", func(s state) bool { return reached(s.Phase, rollout.PhaseAgent) })
	srv.stop(t)

	kept := filepath.Join(t.TempDir(), "copy")
	out, err := exec.CommandContext(t.Context(), "cp", "-a", srv.data, kept).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NoError(t, os.Rename(srv.data, srv.data+".lost"))
	t.Cleanup(func() { _ = os.Rename(srv.data+".lost", srv.data) })

	restored := *srv
	restored.flags = slices.Clone(srv.flags)
	restored.flags[slices.Index(restored.flags, srv.data)] = kept
	restored.data = kept
	again := restored.restart(t)

	require.JSONEq(t, result, at(again, "/result"))
	require.Equal(t, trajectory, at(again, "/trajectory"))
	require.Equal(t, trace, at(again, "/trace"))

	// its sandbox is that of the lost folder
	went := finalize(t, again.url, running)
	require.Equal(t, rollout.Completed, went.Outcome, deref(went.Error))
	require.InDelta(t, 1, *went.Reward, 0)
}
