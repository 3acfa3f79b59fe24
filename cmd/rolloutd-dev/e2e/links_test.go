package e2e

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// linkScript plays three turns of the ReACT agent. The gate holds the last one.
const linkScript = `
- name: links
  match: cross every link
  hermes: true
  turns:
    - tool_calls: [{name: terminal, arguments: {command: "echo one >> log.txt"}}]
    - tool_calls: [{name: terminal, arguments: {command: "echo two >> log.txt; : the-gate-is-near"}}]
    - text: Done.
`

// Each connection between roles and to the model breaks during a model call of a rollout and a step of an
// episode. The connections of one link after another are cut. Then the connections of all links lose all
// packets and are not closed. Nothing is lost and nothing is done twice.
func TestLinksBreak(t *testing.T) {
	t.Parallel()
	gate := startGate(t, linkScript)
	set := startFourProcesses(t, fourProcessesOptions{modelURL: gate.url, linked: true})
	p := player{set.url, "links"}
	begun, err := p.post("/reset", args{
		"instruction": "count",
		"verify":      []string{`test "$(cat log)" = "$(printf '0\n1\n2')"`},
	})
	require.NoError(t, err)
	require.Equal(t, "0", p.mustBash(t, "first", "echo 0 >> log; cat log"))
	id := start(t, set.url, args{
		"instruction": "cross every link",
		"endpoint":    "scripted",
		"agent":       "react",
		"react":       args{"continuation": "messages"},
		"verify":      []string{`test "$(cat log.txt)" = "$(printf 'one\ntwo')"`},
	})

	select {
	case <-gate.reached:
	case <-time.After(4 * time.Minute):
		require.FailNow(t, "no model call is under way")
	}

	step := make(chan stepReply, 1)
	// ends when the step or the server ends
	go func() {
		const command = "echo 1 >> log; until test -e go; do sleep 0.1; done; echo 2 >> log; cat log"

		call := args{"tool_name": "terminal", "arguments": args{"command": command, "timeout": 600}}

		r, _ := p.post("/step", args{"request_id": "slow", "action": call})
		step <- r
	}()

	require.Eventually(t, func() bool {
		r, err := p.bash("look", "until test $(wc -l < log) -eq 2; do sleep 0.1; done")
		return err == nil && r.Observation.Result != nil && !r.Observation.Result.IsError
	}, 4*time.Minute, 50*time.Millisecond, "a step is under way")

	for name, link := range set.links {
		require.Eventually(
			t,
			func() bool { return link.Cut() > 0 },
			4*time.Minute,
			10*time.Millisecond,
			"%s is cut",
			name,
		)
		require.Eventually(
			t,
			func() bool { return link.Open() > 0 },
			4*time.Minute,
			10*time.Millisecond,
			"%s is used again",
			name,
		)
	}

	lost := time.Now()

	for name, link := range set.links {
		var failed error

		require.Eventually(t, func() bool {
			n, err := link.Lose()
			failed = err

			return n > 0 || err != nil
		}, 4*time.Minute, 10*time.Millisecond, "%s loses its packets", name)
		require.NoError(t, failed)
	}

	gate.open()
	// this request uses the dead connections, too
	p.mustBash(t, "go", "touch go")

	var slow stepReply
	select {
	case slow = <-step:
	case <-time.After(5 * time.Minute):
		require.FailNow(t, "the step does not end")
	}

	require.NotNil(t, slow.Observation.Result, "%+v", slow.Observation.Error)
	require.Equal(t, "0\n1\n2", slow.Observation.Result.Data)

	graded, err := p.post("/step", args{"action": args{"tool_name": "submit"}})
	require.NoError(t, err)
	require.NotNil(t, graded.Reward, "%+v", graded.Observation)
	require.InDelta(t, 1.0, *graded.Reward, 0)
	result := finalize(t, set.url, id)
	t.Logf("%.0f s after the links lost their packets, both had ended", time.Since(lost).Seconds())
	requireOneAttempt(t, result)
	require.Len(t, wholeTurns(result), 3)
	requireOneAttempt(t, finalize(t, set.url, begun.Observation.RolloutID))
	require.Empty(t, set.sandboxes(t))
}

// requireOneAttempt checks that a rollout completed with reward 1 in its first attempt.
func requireOneAttempt(t *testing.T, result rollout.Result) {
	t.Helper()
	require.Equal(t, rollout.Completed, result.Outcome, deref(result.Error))
	require.NotNil(t, result.Reward)
	require.InDelta(t, 1.0, *result.Reward, 0, "%+v", result.VerifyResults)
	require.Len(t, result.Attempts, 1)
}
