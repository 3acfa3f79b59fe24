package grading_test

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/grading"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// devour allocates more memory than a sandbox has.
const devour = "x=x; while :; do x=$x$x; done"

// A verifier that runs out of memory by itself gives no reward. If the agent's work causes this, the script
// or the command counts as failed.
func TestVerifierRunsOut(t *testing.T) {
	t.Parallel()

	if os.Geteuid() != 0 {
		t.Skip("an ordinary user has no cgroups")
	}

	a := newAttackedOf(t, 128)
	a.agent(t, "work", cheat{agent: "echo '" + devour + "' > workdir/devour; echo 1 > workdir/one"})

	zero := 0.0

	half := 0.5
	for n, c := range []struct {
		name     string
		verifier rollout.Verifier
		reward   *float64
		status   rollout.GradingStatus
		cause    rollout.Cause
	}{
		{"script by itself", rollout.Verifier{Script: devour}, nil, rollout.NoUsableReward, rollout.OutOfMemory},
		{"script by the work", rollout.Verifier{Script: "[ ! -e ~/workdir/devour ] || . ~/workdir/devour; echo 1 > $VERIFIER_DIR/reward.txt"}, &zero, rollout.FailedBySubmission, rollout.OutOfMemory},
		{"script that lives", rollout.Verifier{Script: "bash ~/workdir/devour; echo 0.5 > $VERIFIER_DIR/reward.txt"}, &half, rollout.Graded, rollout.OutOfMemory},
		{"command by itself", rollout.Verifier{Commands: []string{devour, "test -e one"}}, nil, rollout.NoUsableReward, rollout.OutOfMemory},
		{"command by the work", rollout.Verifier{Commands: []string{"bash devour", "test -e one"}}, &half, rollout.Graded, rollout.OutOfMemory},
		{"in the agent's sandbox by itself", rollout.Verifier{
			Script:      devour,
			SameSandbox: true,
		}, nil, rollout.NoUsableReward, rollout.OutOfMemory},
	} {
		target := rollout.Target{RolloutID: "work", Attempt: n + 1}
		record, err := a.grader.Grade(t.Context(), grading.Job{
			Target:   target,
			Verifier: c.verifier,
			Timeout:  10 * time.Minute,
		})
		require.NoError(t, err, c.name)
		require.Equal(t, c.reward, record.Reward, "%s: %+v", c.name, record)
		require.Equal(t, c.status, record.Grading.Status, "%s: %+v", c.name, record)
		require.NotEmpty(t, record.Causes, c.name)
		require.Equal(t, c.cause, record.Causes[0].Cause, c.name)
		require.Equal(t, rollout.PhaseVerifying, record.Causes[0].Phase, c.name)
		require.NoError(t, a.backend.Destroy(t.Context(), target.VerifierID()))
	}
}

// A test script that fails without a reward, and does so without the agent's work too, gives no reward. If
// the work causes it, or the script does not fail, the submission has failed.
func TestSilentScript(t *testing.T) {
	t.Parallel()

	a := newAttackedOf(t, 256)
	a.agent(t, "work", cheat{agent: "echo bad > workdir/bad"})

	const (
		missing = "python3 -m no_such_runner || exit 1"
		broken  = "[ ! -e ~/workdir/bad ] || exit 1; echo 0 > $VERIFIER_DIR/reward.txt"
		other   = "[ ! -e ~/workdir/bad ] || exit 2; exit 3"
		named   = "[ ! -e ~/workdir/bad ] || exit 0; echo '{\"reward\": 0}' > $VERIFIER_DIR/reward.json"
	)

	for n, c := range []struct {
		name, script string
		untouched    bool
		status       rollout.GradingStatus
		why          string
	}{
		{
			"by itself", missing, true, rollout.NoUsableReward,
			"the test script (exit code 1) writes no reward without the agent's work too: " +
				"/usr/bin/python3: No module named no_such_runner",
		},
		{"by itself, in a task with setup", missing, false, rollout.FailedBySubmission, "wrote no reward"},
		{"by the work", broken, true, rollout.FailedBySubmission, "the test script (exit code 1) wrote no reward"},
		{"in another way", other, true, rollout.FailedBySubmission, "the test script (exit code 2) wrote no reward"},
		{"without a failure", "true", true, rollout.FailedBySubmission, "the test script (exit code 0) wrote no reward"},
		{"with named rewards", named, true, rollout.FailedBySubmission, "the test script (exit code 0) wrote no reward"},
	} {
		target := rollout.Target{RolloutID: "work", Attempt: n + 1}
		record, err := a.grader.Grade(t.Context(), grading.Job{
			Target:    target,
			Verifier:  rollout.Verifier{Script: c.script},
			Timeout:   10 * time.Minute,
			Untouched: c.untouched,
		})
		require.NoError(t, err, c.name)
		require.Equal(t, c.status, record.Grading.Status, "%s: %+v", c.name, record)
		require.Contains(t, record.Grading.Why, c.why, c.name)
		require.Equal(t, c.status == rollout.NoUsableReward, record.Reward == nil, c.name)
		require.NoError(t, a.backend.Destroy(t.Context(), target.VerifierID()))
	}
}
