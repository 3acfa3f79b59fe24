package e2e

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Each of the four processes is killed with kill -9 while the agent works, and started again. The rollout
// completes in its first attempt.
func TestEachOfFourProcessesIsKilled(t *testing.T) {
	t.Parallel()
	model := startModel(t, slowScript)

	set := startFourProcesses(t, fourProcessesOptions{modelURL: model.url})
	for _, role := range []string{"worker", "gateway", "serve", "temporal"} {
		t.Run(role, func(t *testing.T) {
			id := start(t, set.url, args{
				"instruction": "take your time", "endpoint": "scripted", "rollout_id": "kill-" + role,
				"verify": []string{"test \"$(cat log.txt)\" = \"$(printf 'one\\ntwo\\nthree')\""},
			})
			waitFor(
				t,
				set.url,
				id,
				"agent at work",
				func(s state) bool { return s.Phase == rollout.PhaseAgent && s.SessionID != "" },
			)

			killed := time.Now()

			set.roles[role].kill()
			set.start(role)

			away := time.Since(killed)
			result := finalize(t, set.url, id)
			require.Equal(t, rollout.Completed, result.Outcome, deref(result.Error))
			require.NotNil(t, result.Reward)
			require.InDelta(t, 1.0, *result.Reward, 0)
			require.Len(t, result.Attempts, 1)
			require.Len(t, result.ProxyTurns, 4)
			requireWholeTurns(t, result)
			set.requireTakenOver(t, id, away)
		})
	}
}

// A host accepts only one worker: each of two workers would take over the activities of the other as those
// of a dead worker.
func TestSecondWorkerOfAHostIsRefused(t *testing.T) {
	t.Parallel()
	set := startFourProcesses(t, fourProcessesOptions{})
	worker := set.roles["worker"]

	second := startProcess(
		t,
		append(worker.env, "ROLLOUTD_METRICS_LISTEN="+freePorts(t, 1)[0]),
		worker.binary,
		worker.args...)
	select {
	case <-second.done:
	case <-time.After(5 * time.Minute):
		require.Fail(t, "it runs")
	}

	require.NotZero(t, second.cmd.ProcessState.ExitCode())
	require.Contains(t, tail(second.log), "a data folder has one worker")
}
