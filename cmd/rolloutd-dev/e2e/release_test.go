package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// This build replaces the last release, whose binaries are in the folder ROLLOUTD_TEST_RELEASE, while agents are in the
// middle of model calls, by a stop and by a kill. Each rollout ends in its first attempt with its reward and one sequence,
// an interactive one goes on, and what the release has stored is read.
func TestUpgradeFromRelease(t *testing.T) {
	t.Parallel()

	release := os.Getenv("ROLLOUTD_TEST_RELEASE")
	if release == "" {
		t.Skip("ROLLOUTD_TEST_RELEASE has no binaries of a release: deploy/suite.sh upgrade")
	}

	for name, end := range map[string]func(*dev){
		"stopped": func(d *dev) { d.stop(t) },
		"killed":  func(d *dev) { d.kill() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			srv := startDev(t, devOptions{
				binaries: release, modelURL: startModel(t, heldScript).url, env: []string{"ROLLOUTD_WORKER_CAPACITY=8"},
			})
			before := runRollout(t, srv.url, args{
				"instruction": "nothing", "agent": "nop", "endpoint": "scripted", "verify": []string{"true"},
			})

			player := player{srv.url, "upgraded"}
			_, err := player.post("/reset", args{"instruction": "count", "verify": []string{`test "$(cat log)" = b`}})
			require.NoError(t, err)
			require.Empty(t, player.mustBash(t, "1", "echo a > log"))

			agents := map[string]string{}
			for _, agent := range []string{"opencode", "react", "opencode", "react"} {
				agents[srv.beginHeld(t, agent)] = agent
			}

			for id := range agents {
				srv.awaitTurn(t, id)
			}

			end(srv)

			srv.o.binaries = ""
			srv = srv.restart(t)

			for id, agent := range agents {
				srv.requireUpgraded(t, id, agent)
			}

			require.Empty(t, player.mustBash(t, "2", "echo b > log"))

			graded, err := player.post("/step", args{"action": args{"tool_name": "submit"}})
			require.NoError(t, err)
			require.NotNil(t, graded.Reward)

			require.Equal(t, before.Reward, finalize(t, srv.url, before.ID).Reward)
			require.Empty(t, srv.sandboxes(t))
		})
	}
}

func (d *dev) requireUpgraded(t *testing.T, id, agent string) {
	t.Helper()

	result := finalize(t, d.url, id)
	require.Equal(t, rollout.Completed, result.Outcome, "%s: %s", agent, deref(result.Error))
	require.InDelta(t, 1, *result.Reward, 0, "%s: %+v", agent, result.VerifyResults)
	require.Len(t, result.Attempts, 1, agent)

	// A stop of the release cuts the call; the repeated one is a turn of its own.
	result.ProxyTurns = slices.DeleteFunc(result.ProxyTurns, func(turn rollout.CompactTurn) bool { return !turn.Train })
	require.Len(t, result.ProxyTurns, 4, agent)
	requireWholeTurns(t, result)
	require.Len(t, sequences(t, d, id, filepath.Join(t.TempDir(), "sequences.jsonl")), 1, agent)
}
