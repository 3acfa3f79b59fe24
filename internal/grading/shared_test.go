package grading_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// The tests of shared grading see what the agent has changed in the folders of the system. The agent's processes, and
// what it has put where the tests and the reward go, are gone.
func TestSharedGradingSeesTheSystem(t *testing.T) {
	t.Parallel()

	if os.Geteuid() != 0 {
		t.Skip("only a worker that is root makes agents root of an image")
	}

	const work = `set -e
		mkdir -p /etc/server; echo on > /etc/server/conf; printf '#!/bin/bash\necho new' > /usr/bin/tool
		rm -rf /tests /logs; mkdir -p /tests /logs/verifier; echo cheat > /tests/left; echo 1 > /logs/verifier/reward.txt
		(while :; do echo 1 > /logs/verifier/reward.txt; done) & disown -a`

	for _, tc := range []struct {
		name     string
		verifier rollout.Verifier

		// further work
		work   string
		reward float64
		status rollout.GradingStatus
	}{
		{
			name: "script",
			verifier: rollout.Verifier{
				Files: map[string]string{"part.sh": `read b < /etc/server/conf; [ "$a$b" = newon ] || exit 1`},
				Script: `[ -e answer ] && [ $UID = 0 ] && [ ! -e /tests/left ] && [ ! -e /logs/verifier/reward.txt ] || exit 1
					a=$(tool); . /tests/part.sh; . ~/tests/part.sh; echo 0.5 > $VERIFIER_DIR/reward.txt`,
			},
			reward: 0.5, status: rollout.Graded,
		},
		{
			name:     "commands",
			verifier: rollout.Verifier{Commands: []string{`[ "$(tool)" = new ]`, `[ -e /etc/other ]`}},
			reward:   0.5, status: rollout.Graded,
		},
		{
			name:     "no reward",
			verifier: rollout.Verifier{Script: `exit 3`},
			status:   rollout.FailedBySubmission,
		},
		{
			name:     "no shell",
			verifier: rollout.Verifier{Script: `echo 1 > /logs/verifier/reward.txt`},
			work:     "rm -f /bin/bash /usr/bin/bash",
			status:   rollout.FailedBySubmission,
		},
		{
			name:     "no loader",
			verifier: rollout.Verifier{Commands: []string{"true"}},
			work:     "rm -rf /lib64 /usr/lib64 /lib /usr/lib",
			status:   rollout.FailedBySubmission,
		},
		{
			name:     "a reward that is none",
			verifier: rollout.Verifier{Script: `echo nan > /logs/verifier/reward.txt`},
			status:   rollout.FailedBySubmission,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()

			tc.verifier.Grade = rollout.GradeShared
			record := gradeWork(t, rollout.UserRoot, dataImage(t), work+"\n"+tc.work, tc.verifier)
			require.Equal(t, tc.status, record.Grading.Status, record.Grading.Why+record.Stderr)
			require.NotNil(t, record.Reward)
			require.InDelta(t, tc.reward, *record.Reward, 0, record.Stderr)
			require.Equal(t, rollout.GradeShared, record.Grading.Mode)
			require.Empty(t, record.Grading.Unseen)
		})
	}
}

// A user of the image who is not root cannot make room for the tests: the reason says so.
func TestSharedGradingNeedsRoot(t *testing.T) {
	t.Parallel()

	if os.Geteuid() != 0 {
		t.Skip("only a worker that is root gives agents users of an image")
	}

	record := gradeWork(t, "1500", dataImage(t), "true", rollout.Verifier{Commands: []string{"true"}, Grade: rollout.GradeShared})
	require.Equal(t, rollout.FailedBySubmission, record.Grading.Status)
	require.Contains(t, record.Grading.Why, "who must be root")
}
