package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// strike kills a role with -9 and starts it again.
func (a *apart) strike(name string) {
	a.t.Helper()
	a.roles[name].kill()
	a.start(name)
}

// reactStruck runs a ReACT rollout and kills a role after its nth event; false: the rollout ended before.
func (a *apart) reactStruck(t *testing.T, role string, n int) bool {
	t.Helper()
	id := start(t, a.url, reactArgs())
	struck := awaitEvents(t, a.url, id, n)
	if struck {
		a.strike(role)
	}
	requireReact(t, finalize(t, a.url, id))
	return struck
}

// episodeStruck plays an episode and kills a role; see requireEpisode.
func (a *apart) episodeStruck(t *testing.T, role string, n int) bool {
	t.Helper()
	return player{a.url, fmt.Sprint(role, "-", n)}.requireEpisode(t, n, func() { a.strike(role) })
}

// One role of three is killed with -9 while a ReACT rollout or an episode runs; the others go on. TestKillWalkOfRoles has all positions.
func TestRolesKilled(t *testing.T) {
	t.Parallel()
	model := startModel(t, reactScript)
	set := startApart(t, apartOptions{modelURL: model.url})
	for _, at := range []struct {
		role     string
		position int
	}{{"worker", 8}, {"gateway", 12}, {"serve", 15}} {
		require.True(t, set.reactStruck(t, at.role, at.position), "%+v", at)
	}
	for step, role := range []string{"worker", "serve"} {
		require.True(t, set.episodeStruck(t, role, step), role)
	}
	require.Empty(t, set.sandboxes(t))
}

// The whole walk: each role after each event of a ReACT rollout, and while each step of an episode is on its way and after each event of its grading.
func TestKillWalkOfRoles(t *testing.T) {
	t.Parallel()
	onlyRedteam(t)
	model := startModel(t, strings.ReplaceAll(reactScript, "300ms", "50ms"))
	for _, role := range []string{"worker", "gateway", "serve"} {
		t.Run(role, func(t *testing.T) {
			set := startApart(t, apartOptions{modelURL: model.url})
			rollouts, episodes := 1, 0
			for set.reactStruck(t, role, rollouts) {
				rollouts++
			}
			for set.episodeStruck(t, role, episodes) {
				episodes++
			}
			require.Empty(t, set.sandboxes(t))
			require.Greater(t, rollouts, 20)
			require.Greater(t, episodes, 2*episodeSteps)
			t.Logf("%d kills during rollouts, %d during episodes", rollouts-1, episodes)
		})
	}
}
