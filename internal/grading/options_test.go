package grading_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/grading"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// File names that begin with "-" are not options of programs that a verifier runs on a pattern. As options
// they could run the agent's programs as the verifier.
func TestFileNamesAreNoOptions(t *testing.T) {
	t.Parallel()

	a := newAttacked(t)
	if !a.separate {
		t.Skip("an ordinary user's verifier has the agent's user")
	}
	// sed runs the command of -e. sort passes its lines to the program of --compress-program.
	a.agent(t, "work", cheat{
		agent: `cd workdir; mkdir sed sort other; cd sed; echo 'touch $VERIFIER_DIR/mine' > run; touch -- '-e1e sh run'; ` +
			`cd ../sort; touch -- -S1k --compress-program=sh; yes 'touch $VERIFIER_DIR/mine; exit' | head -n 200000 > lines; ` +
			`cd ../other; mkdir sub -- -d; touch -- a -d/-e sub/-e --help .hidden`,
	})

	const safe = "; test ! -e $VERIFIER_DIR/mine"

	commands := []string{
		"cd sed; sed -n 1p *" + safe,
		"cd sed; (sed -n 1p *) | cat" + safe,
		"cd sort; sort * > /dev/null" + safe,
		"cd sort; for f in *; do sort -u * > /dev/null; done" + safe,
		`cd other; test "$(echo *)" = "a sub"`,
		`cd other; test "$(echo */*)" = "sub/-e"`,
		`cd other; test "$(echo .h*)" = .hidden`,
		"cd other; shopt -s nullglob; for f in -*; do exit 1; done",
	}

	script := "cd ~/workdir/sed; sed -n 1p *; cd ../sort; sort * > /dev/null; n=1; test ! -e $VERIFIER_DIR/mine || n=0; " +
		`test "$0" = /verifier/tests/test.sh && test "${BASH_SOURCE[0]}" = "$0" || n=0; echo $n > $VERIFIER_DIR/reward.txt`
	for n, v := range []rollout.Verifier{{Commands: commands}, {Script: script}} {
		target := rollout.Target{RolloutID: "work", Attempt: n + 1}
		record, err := a.grader.Grade(t.Context(), grading.Job{Target: target, Verifier: v, Timeout: 10 * time.Minute})
		require.NoError(t, err)
		require.NotNil(t, record.Reward, "%+v", record)

		for _, c := range record.Commands {
			require.Zero(t, c.ExitCode, "%+v", c)
		}

		require.InDelta(t, 1.0, *record.Reward, 0, "%+v", record)
	}
}
