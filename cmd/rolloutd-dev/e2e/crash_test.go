package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// The whole process is killed with kill -9 in each phase and started again, up to three times in one rollout. The rollout has
// the same result in one attempt, the agent is started once, and no sandbox or process remains. In the agent's phase the
// process is killed during a model call: the gateway repeats the unanswered call, and the trace has one turn for it.
func TestKillAtEachPhase(t *testing.T) {
	t.Parallel()

	for _, killed := range [][]rollout.Phase{
		{rollout.PhaseCreating, rollout.PhaseSetup, rollout.PhaseVerifying},
		{rollout.PhaseInstalling, rollout.PhaseAgent},
		{rollout.PhaseProxy, rollout.PhaseCollecting, rollout.PhaseClosing},
	} {
		t.Run(fmt.Sprint(killed), func(t *testing.T) {
			t.Parallel()
			model := startModel(t, slowScript)
			srv := startDev(t, devOptions{modelURL: model.url})
			id := start(t, srv.url, args{
				"instruction": "take your time", "endpoint": "scripted",
				"setup":  []string{"sleep 0.5; echo setup >> log.txt"},
				"verify": []string{"sleep 0.5; test \"$(cat log.txt)\" = \"$(printf 'setup\\none\\ntwo\\nthree')\""},
			})

			var longest time.Duration

			// A phase may last only milliseconds and end before the test observes it. The test then kills
			// the process in a later phase, or after the rollout is done, when its result must not change.
			for _, phase := range killed {
				waitFor(t, srv.url, id, "reaches "+string(phase), func(s state) bool {
					return reached(s.Phase, phase) && (s.Phase != rollout.PhaseAgent || s.SessionID != "")
				})

				at := time.Now()

				srv.kill()
				srv = srv.restart(t)
				longest = max(longest, time.Since(at))
			}

			result := finalize(t, srv.url, id)
			require.Equal(t, rollout.Completed, result.Outcome, deref(result.Error))
			require.NotNil(t, result.Reward)
			require.InDelta(t, 1.0, *result.Reward, 0, "%+v", result.VerifyResults)
			require.Len(t, result.Attempts, 1, "a restart is no new attempt")
			require.Len(t, result.ProxyTurns, 4)
			requireWholeTurns(t, result)

			// an activity before or after the sandbox's life is retried after its heartbeat timeout
			if slices.Contains(killed, rollout.PhaseAgent) {
				srv.requireTakenOver(t, id, longest)
			}

			require.Equal(t, 1, srv.agentStarts(t, result))
			require.Empty(t, srv.sandboxes(t))
			require.Empty(t, processesNaming(t, id))
		})
	}
}

// An abort stops the model's generation at once, keeps the files and the transcript, and gives no reward.
func TestAbort(t *testing.T) {
	t.Parallel()
	model := startModel(t, slowScript)
	srv := startDev(t, devOptions{modelURL: model.url})
	id := start(t, srv.url, args{
		"instruction": "hang in the second turn",
		"endpoint":    "scripted",
		"verify":      []string{"true"},
	})
	aborted := ""
	// returns when the rollout has ended
	follow(t, srv.url, id, "", func(e rollout.Event) {
		if e.Kind == rollout.EventToolEnd && aborted == "" {
			var err error

			aborted, err = call(t.Context(), srv.url, "abort_rollout", args{"rollout_id": id})
			require.NoError(t, err)
		}
	})
	require.Contains(t, aborted, `"aborted":true`)
	result := finalize(t, srv.url, id)
	require.Equal(t, rollout.Aborted, result.Outcome)
	require.Nil(t, result.Reward)
	require.NotEmpty(t, result.ProxyTurns)
	require.Contains(t, result.Files, "/home/user/workdir/log.txt", "what was produced is kept")
	require.Contains(t, get(t, srv.url+"/rollouts/"+id+"/messages"), "echo one ", "so is the transcript that there was")
	require.Empty(t, srv.sandboxes(t))
	model.requireIdle(t)

	text, err := call(t.Context(), srv.url, "abort_rollout", args{"rollout_id": "no-such-rollout"})
	require.NoError(t, err)
	require.Contains(t, text, `"unknown"`)
}

// phases are the phases of a rollout in their order.
var phases = []rollout.Phase{
	rollout.PhaseQueued, rollout.PhaseCreating, rollout.PhaseInstalling, rollout.PhaseProxy, rollout.PhaseSetup,
	rollout.PhaseAgent, rollout.PhaseVerifying, rollout.PhaseCollecting, rollout.PhaseClosing, rollout.PhaseDone,
}

// reached reports whether at is want or a later phase.
func reached(at, want rollout.Phase) bool {
	for _, p := range phases {
		if p == want {
			return true
		}

		if p == at {
			return false
		}
	}

	return false
}

// slowScript has four turns with a delay before each, so that a test can kill a process between them.
const slowScript = `
- name: slow
  match: take your time
  pace: {delay: 1500ms}
  turns:
    - tool_calls: [{name: bash, arguments: {command: "echo one >> log.txt", description: "One"}}]
    - tool_calls: [{name: bash, arguments: {command: "echo two >> log.txt", description: "Two"}}]
    - tool_calls: [{name: bash, arguments: {command: "echo three >> log.txt", description: "Three"}}]
    - text: Done.
- name: hang
  match: hang in the second turn
  turns:
    - tool_calls: [{name: bash, arguments: {command: "echo one >> log.txt", description: "One"}}]
    - text: "This will take a while "
      filler: 50
      faults: [{hang_after: 5}]
`
