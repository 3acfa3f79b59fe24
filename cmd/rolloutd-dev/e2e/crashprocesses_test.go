package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Each of the four processes is killed with kill -9 while the agent works, and started again, one after the other. The
// rollout completes in its first attempt.
func TestEachOfFourProcessesIsKilled(t *testing.T) {
	t.Parallel()

	const turns = 4

	gate := startGate(t, longScript("bash", turns, time.Second))
	set := startFourProcesses(t, fourProcessesOptions{modelURL: gate.url})
	id := start(t, set.url, args{
		"instruction": "take ages", "endpoint": "scripted",
		"verify": []string{"test $(wc -l < log.txt) -eq " + fmt.Sprint(turns)},
	})

	var longest time.Duration

	for _, role := range []string{"worker", "gateway", "serve", "temporal"} {
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

		longest = max(longest, time.Since(killed))
	}

	gate.open()

	result := finalize(t, set.url, id)
	require.Equal(t, rollout.Completed, result.Outcome, deref(result.Error))
	require.NotNil(t, result.Reward)
	require.InDelta(t, 1.0, *result.Reward, 0, "%+v", result.VerifyResults)
	require.Len(t, result.Attempts, 1)
	require.Len(t, result.ProxyTurns, turns+1)
	requireWholeTurns(t, result)
	set.requireTakenOver(t, id, longest)
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
