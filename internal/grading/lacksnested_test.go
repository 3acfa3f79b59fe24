package grading_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/grading"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// What programs that the tests start lack is noted, in whichever process. The grade stays: the work may have said so.
func TestNestedLacksAreNoted(t *testing.T) {
	t.Parallel()

	a := newAttackedOf(t, 256)
	a.agent(t, "work", cheat{agent: "echo bad > workdir/bad"})

	const decides = "; if [ $? = 0 ]; then echo 1 > $VERIFIER_DIR/reward.txt; else echo 0 > $VERIFIER_DIR/reward.txt; fi"

	for n, c := range []struct{ script, note string }{
		{"bash $TESTS_DIR/nested.sh" + decides, "no-such-python: command not found\": the image has no such program"},
		{`python3 -c 'import urllib.request as r; r.urlopen("http://files.example.org/")'` + decides, "grading reaches no network"},
		{"bash $TESTS_DIR/nested.sh; true" + decides, ""},
	} {
		target := rollout.Target{RolloutID: "work", Attempt: n + 1}
		record, err := a.grader.Grade(t.Context(), grading.Job{
			Target: target, Timeout: 10 * time.Minute, Verifier: rollout.Verifier{
				Script: c.script, Files: map[string]string{"nested.sh": "$(echo no-such-python) -c 1\n"},
			},
		})
		require.NoError(t, err)
		require.NoError(t, a.backend.Destroy(t.Context(), target.VerifierID()))
		require.NotNil(t, record.Reward, c.script)

		if c.note == "" {
			require.InDelta(t, 1, *record.Reward, 0)
			require.Empty(t, record.Grading.Notes)

			continue
		}

		require.Zero(t, *record.Reward)
		require.NotEmpty(t, record.Grading.Notes, "%+v", record)
		require.Contains(t, record.Grading.Notes[0], c.note)
	}
}
