package grading_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/grading"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// A script that writes 0 because the image lacks its test runner gives no reward. A runner that is missing but decides
// nothing, or that the work may have brought, leaves the 0.
func TestScriptLacksItsRunner(t *testing.T) {
	t.Parallel()

	a := newAttackedOf(t, 256)
	a.agent(t, "work", cheat{agent: "echo bad > workdir/bad"})

	const (
		decides = "; if [ $? = 0 ]; then echo 1 > $VERIFIER_DIR/reward.txt; else echo 0 > $VERIFIER_DIR/reward.txt; fi"
		named   = ` && echo '{"reward": 1}' > $VERIFIER_DIR/reward.json || echo '{"reward": 0}' > $VERIFIER_DIR/reward.json`
		works   = "; ! test -e ~/workdir/bad" + decides
	)

	for n, c := range []struct {
		name, script string

		// "": the 0 is the submission's
		lacks string
	}{
		{"program", "set -u; no-such-installer | sh; . $HOME/.local/bin/env; uvx -p 3.13 pytest $TESTS_DIR/a.py" + decides, "uvx"},
		{"in a file", "bats a > $VERIFIER_DIR/log 2>&1" + named, "bats"},
		{"in a function", "run() { nox -s a; }; PATH=$HOME/.local/bin:$PATH; run" + named, "nox"},
		{"module", "python3 -B -m behave $TESTS_DIR" + decides, "python3 -m behave"},
		{"decides nothing", "uv --version; no-such-installer" + works, ""},
		{"module decides nothing", "python3 -m behave || true" + works, ""},
		{"in an environment of the work", ". ~/workdir/venv/bin/activate; tox" + decides, ""},
		{"in a folder of the work", "PATH=~/workdir/bin:$PATH; tox" + decides, ""},
		{"of the work", "my-tool --version" + decides, ""},
		{"module of the work", "python3 -m my_tool" + decides, ""},
	} {
		target := rollout.Target{RolloutID: "work", Attempt: n + 1}
		record, err := a.grader.Grade(t.Context(), grading.Job{
			Target: target, Verifier: rollout.Verifier{Script: c.script}, Timeout: 10 * time.Minute,
		})
		require.NoError(t, err, c.name)
		require.NoError(t, a.backend.Destroy(t.Context(), target.VerifierID()))

		if c.lacks == "" {
			require.NotNil(t, record.Reward, "%s: %+v", c.name, record)
			require.Zero(t, *record.Reward, c.name)

			continue
		}

		require.Nil(t, record.Reward, "%s: %+v", c.name, record)
		require.Contains(t, record.Grading.Why, "the test script runs "+c.lacks+", which is not in the image", c.name)
	}
}
