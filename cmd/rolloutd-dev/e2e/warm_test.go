package e2e

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// warmFolders returns the folders of the warm sandboxes.
func (d instance) warmFolders(t testing.TB) []string {
	t.Helper()

	folders, err := filepath.Glob(filepath.Join(d.data, "sandboxes", "warm-*"))
	require.NoError(t, err)

	return folders
}

// Rollouts after the first one begin in a warm sandbox. A server that starts after a kill takes over the
// ready warm sandbox. One rollout uses each warm sandbox, no rollout sees the files of another, and a
// server that stops leaves no warm sandbox.
func TestWarmRollouts(t *testing.T) {
	t.Parallel()
	model := startModel(t, slowScript)
	srv := startDev(t, devOptions{modelURL: model.url, env: []string{"ROLLOUTD_SANDBOX_WARM=1"}})
	job := args{
		"instruction": "take your time",
		"endpoint":    "scripted",
		"setup":       []string{"test ! -e log.txt && echo setup >> log.txt"},
		"verify":      []string{"test \"$(cat log.txt)\" = \"$(printf 'setup\\none\\ntwo\\nthree')\""},
	}
	check := func(r rollout.Result, warm bool) {
		t.Helper()
		require.Equal(t, rollout.Completed, r.Outcome, deref(r.Error))
		require.InDelta(t, 1.0, *r.Reward, 0, "%+v", r.VerifyResults)
		require.Equal(t, warm, strings.Contains(r.InstallLogTail, "warm"), r.InstallLogTail)
		require.Len(t, r.Attempts, 1)
		require.Len(t, r.ProxyTurns, 4, "the rehearsal is no call of the rollout")
		require.Equal(t, 1, srv.agentStarts(t, r))
	}
	check(runRollout(t, srv.url, job), false)
	srv.waitForWarm(t, 1)

	waiting := srv.warmFolders(t)
	require.Len(t, waiting, 1)
	srv.kill()
	srv = srv.restart(t)
	srv.waitForWarm(t, 1)
	require.Equal(t, waiting, srv.warmFolders(t), "it was taken over")

	// Two rollouts start at once with one warm sandbox ready, and one of them gets it. The server is killed
	// while they run.
	ids := []string{start(t, srv.url, job), start(t, srv.url, job)}
	for _, id := range ids {
		waitFor(t, srv.url, id, "agent at work", func(s state) bool { return reached(s.Phase, rollout.PhaseAgent) })
	}

	srv.kill()
	srv = srv.restart(t)
	warm := 0

	for _, id := range ids {
		r := finalize(t, srv.url, id)
		check(r, strings.Contains(r.InstallLogTail, "warm"))
		warm += strings.Count(r.InstallLogTail, "warm")
	}

	require.Equal(t, 1, min(warm, 1))
	require.NotContains(t, srv.warmFolders(t), waiting[0])
	srv.stop(t)
	left, err := filepath.Glob(filepath.Join(srv.data, "sandboxes", "*", "control.sock"))
	require.NoError(t, err)
	require.Empty(t, left, "warm ones included")
}
