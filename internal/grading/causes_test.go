package grading_test

import (
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
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

// A verify command whose own program is not in the untouched image, or whose file cannot be executed, gives no reward.
// What the work may provide or can spoil leaves it at the share of the commands that passed.
func TestCommandLacksItsProgram(t *testing.T) {
	t.Parallel()

	a := newAttackedOf(t, 256)
	a.agent(t, "work", cheat{agent: "cd workdir; ln -s /no/such link; cat > says <<'END'; chmod +x says\n#!/bin/bash\n" +
		`echo 'run-as-agent: argv: no program "no-such-runner" in PATH "/usr/bin:/bin"' >&2; exit 126` + "\nEND"})

	files := map[string]string{"run.sh": "exit 0", "odd": "#!/home/user/venv/bin/python\n"}

	for n, c := range []struct {
		name    string
		command string

		// of the reason that there is no reward; "": the reward is 0
		why string
	}{
		{"a missing program", "no-such-runner -q", `no program "no-such-runner" in PATH`},
		{"after another", "cd / && no-such-runner -q", `no program "no-such-runner" in PATH`},
		{"by its variable", "A=b no-such-runner", `no program "no-such-runner" in PATH`},
		{"with a time limit", "timeout 9 no-such-runner", "failed to run command"},
		{"a file without the right to execute", "/verifier/tests/run.sh", "/verifier/tests/run.sh: permission denied"},
		{"by the name of the home", "~/tests/run.sh", "/verifier/home/tests/run.sh: permission denied"},
		{"a file that is missing", "/verifier/tests/none.sh", "/verifier/tests/none.sh: no such file or directory"},

		{"a module that runs tests", "cd / && python3 -m behave -q", "python3: No module named behave"},

		{"a module of the work", "python3 -m solve", ""},
		{"a module of an environment of the work", ". venv/bin/activate || true; python3 -m behave", ""},
		{"a program of the work", "./solve", ""},
		{"a link of the work", "./link", ""},
		{"a file of the work", "bash solve.sh", ""},
		{"an interpreter of the work", "/verifier/tests/odd", ""},
		{"a folder of the work in the PATH", `PATH="$HOME/bin:$PATH" no-such-runner`, ""},
		{"settings of the work", ". ./settings; no-such-runner", ""},
		{"for other work only", "test -e solved || no-such-runner", ""},
		{"the work says so", "./says", ""},
		{"it fails in another way", "false", ""},
	} {
		before := a.controls.Load()
		target := rollout.Target{RolloutID: "work", Attempt: n + 1}
		record, err := a.grader.Grade(t.Context(), grading.Job{
			Target:   target,
			Verifier: rollout.Verifier{Commands: []string{c.command}, Files: files},
			Timeout:  10 * time.Minute,
		})
		require.NoError(t, err, c.name)
		require.NoError(t, a.backend.Destroy(t.Context(), target.VerifierID()))

		if c.command == "./says" {
			require.Equal(t, before+1, a.controls.Load(), "its word is not believed")
		}

		if c.why == "" {
			require.Equal(t, rollout.Graded, record.Grading.Status, "%s: %+v", c.name, record)
			require.NotNil(t, record.Reward, c.name)
			require.Zero(t, *record.Reward, c.name)

			continue
		}

		require.Equal(t, rollout.NoUsableReward, record.Grading.Status, "%s: %+v", c.name, record)
		require.Contains(t, record.Grading.Why, c.why, c.name)
		require.Nil(t, record.Reward, c.name)
	}
}

// How a verifier ends without work is found out once for all submissions of its task, also at the same time.
func TestControlsAreKept(t *testing.T) {
	t.Parallel()

	a := newAttackedOf(t, 256)
	a.grader.Controls = &grading.Controls{}
	a.agent(t, "work", cheat{agent: "true"})

	silent := rollout.Verifier{Script: "echo why >&2; exit 3"}
	grade := func(attempt int, v rollout.Verifier) {
		target := rollout.Target{RolloutID: "work", Attempt: attempt}
		record, err := a.grader.Grade(t.Context(), grading.Job{
			Target: target, Verifier: v, Timeout: 10 * time.Minute, Untouched: true,
		})
		assert.NoError(t, err)
		assert.Nil(t, record.Reward)
		assert.Contains(t, record.Grading.Why, "without the agent's work too: why")
		assert.NoError(t, a.backend.Destroy(t.Context(), target.VerifierID()))
	}

	var all sync.WaitGroup
	for attempt := range 4 {
		all.Go(func() { grade(attempt+1, silent) })
	}

	all.Wait()
	grade(5, silent)
	require.EqualValues(t, 1, a.controls.Load())

	grade(6, rollout.Verifier{Script: silent.Script + " # other"})
	require.EqualValues(t, 2, a.controls.Load())
}
