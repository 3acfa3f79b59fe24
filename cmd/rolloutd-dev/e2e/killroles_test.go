package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// killAndRestart kills a role with kill -9 and starts it again.
func (a *fourProcesses) killAndRestart(name string) {
	a.t.Helper()
	a.roles[name].kill()
	a.start(name)
}

// killDuringReact runs a ReACT rollout and kills a role after the rollout's nth event. It returns false if
// the rollout ended before.
func (a *fourProcesses) killDuringReact(t *testing.T, role string, n int) bool {
	t.Helper()
	id := start(t, a.url, reactArgs())

	killed := awaitEvents(t, a.url, id, n)
	if killed {
		a.killAndRestart(role)
	}

	requireReact(t, finalize(t, a.url, id))

	return killed
}

// killDuringEpisode plays an episode and kills a role at position n; see requireEpisode.
func (a *fourProcesses) killDuringEpisode(t *testing.T, role string, n int) bool {
	t.Helper()
	return player{a.url, fmt.Sprint(role, "-", n)}.requireEpisode(t, n, func() { a.killAndRestart(role) })
}

// killDuringGroup runs a group of ReACT rollouts and kills a role after the nth event of the first rollout.
// It returns false if that rollout ended before. No rollout of the group may be lost or replaced.
func (a *fourProcesses) killDuringGroup(t *testing.T, role string, n int) bool {
	t.Helper()

	const siblings = 3

	group := fmt.Sprint(role, "-", n)
	of := reactArgs()
	of["group_id"], of["group_size"] = group, siblings
	postGroup(t, a.url, of)

	first := rollout.MemberID(group, 0, 0)
	waitFor(t, a.url, first, "begun", func(s state) bool { return s.Phase != "" })

	killed := awaitEvents(t, a.url, first, n)
	if killed {
		a.killAndRestart(role)
	}

	ended := waitGroup(t, a.url, group)
	require.Equal(t, rollout.GroupComplete, ended.Outcome, ended.Error)
	require.Equal(t, []float64{1, 1, 1}, ended.Rewards())
	require.Len(t, ended.Members, siblings)

	for i, m := range ended.Members {
		require.Equal(t, rollout.MemberID(group, i, 0), m.RolloutID)
		requireReact(t, finalize(t, a.url, m.RolloutID))
	}

	return killed
}

// One of three roles is killed with kill -9 while a ReACT rollout or an episode runs. The other roles keep
// running. TestRolesKilledAtEachEvent tests all positions.
func TestRolesKilled(t *testing.T) {
	t.Parallel()
	model := startModel(t, reactScript)

	set := startFourProcesses(t, fourProcessesOptions{modelURL: model.url})
	for _, at := range []struct {
		role     string
		position int
	}{{"worker", 8}, {"gateway", 12}, {"serve", 15}} {
		require.True(t, set.killDuringReact(t, at.role, at.position), "%+v", at)
	}

	for step, role := range []string{"worker", "serve"} {
		require.True(t, set.killDuringEpisode(t, role, step), role)
	}

	require.Empty(t, set.sandboxes(t))
}

// Each role is killed after each event of a ReACT rollout, after each event of the first rollout of a
// group, during each step of an episode, and after each event of the episode's grading. Each position is a
// subtest, so `-run 'TestRolesKilledAtEachEvent/serve/rollout/^1[0-9]$'` selects a part.
func TestRolesKilledAtEachEvent(t *testing.T) {
	t.Parallel()
	onlyRedteam(t)

	model := startModel(t, strings.ReplaceAll(reactScript, "300ms", "50ms"))
	for _, role := range []string{"serve", "gateway", "worker"} {
		t.Run(role, func(t *testing.T) {
			set := startFourProcesses(t, fourProcessesOptions{modelURL: model.url})
			t.Run("rollout", func(t *testing.T) { set.killAtEachPosition(t, role, 1, 20, set.killDuringReact) })
			t.Run(
				"episode",
				func(t *testing.T) { set.killAtEachPosition(t, role, 0, 2*episodeSteps, set.killDuringEpisode) },
			)
			t.Run("group", func(t *testing.T) { set.killAtEachPosition(t, role, 1, 20, set.killDuringGroup) })
		})
	}
}

// killAtEachPosition kills the role at each position, beginning at first, until a run ends before it
// reaches the position. A run must not end before position atLeast.
func (a *fourProcesses) killAtEachPosition(
	t *testing.T,
	role string,
	first, atLeast int,
	killAt func(*testing.T, string, int) bool,
) {
	// more positions than any run has, in case -run skips the position at which a run ends
	const more = 500

	ended := false
	for n := first; n < more && !ended; n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			ended = !killAt(t, role, n)
			require.Empty(t, a.sandboxes(t))
			require.False(t, ended && n < atLeast, "it ended before position %d", n)
		})
	}
}
