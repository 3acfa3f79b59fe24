package grading_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// If the saved home has something else in place of a folder of a fresh sandbox, the rest of the home is still graded.
func TestHomeWithoutItsFolders(t *testing.T) {
	t.Parallel()
	a := newAttacked(t)
	v := rollout.Verifier{Commands: []string{"grep -qx 42 /home/user/answer"}}

	for name, leaves := range map[string]string{
		"file": "rm -rf workdir logs; echo 1 > workdir; echo 1 > logs",
		"link": "rm -rf workdir logs; ln -s /tmp workdir; ln -s /tmp logs",
	} {
		a.agent(t, "folders-"+name, cheat{agent: "echo 42 > answer; " + leaves})
		record := a.grade(t, "folders-"+name, 0, style{verifier: v}, 5*time.Minute)
		require.NotNil(t, record.Reward, "%s: %+v", name, record)
		require.InDelta(t, 1.0, *record.Reward, 0, "%s: %+v", name, record)
	}
}

// Work that a test script starts without run-as-agent runs as the agent's user all the same, and cannot
// change the script.
func TestScriptStartsTheWorkByItsName(t *testing.T) {
	t.Parallel()

	a := newAttacked(t)
	if !a.separate {
		t.Skip("an ordinary user has no further user ids")
	}

	a.agent(
		t,
		"breaks",
		cheat{hello: "write('/verifier/tests/test.sh', 'if ( then')\nanyway(os.kill, parent, 9)\nprint(os.getuid())"},
	)

	v := rollout.Verifier{Script: `cd ~/workdir
test "$(python3 hello.py)" = 1000 && test "$(sha256sum < $TESTS_DIR/test.sh)" = "$(sha256sum < "$0")" && echo 1 > $VERIFIER_DIR/reward.txt
`}
	record := a.grade(t, "breaks", 0, style{verifier: v}, 5*time.Minute)
	require.NotNil(t, record.Reward, "%+v", record)
	require.InDelta(t, 1, *record.Reward, 0, "%+v", record)
}

// A verify command that bash cannot parse fails for any work. There is no reward, and the reason has bash's
// message. A command that enables extended patterns itself is parsed.
func TestCommandThatCannotBeParsed(t *testing.T) {
	t.Parallel()

	a := newAttacked(t)
	for name, c := range map[string]struct {
		command, why string
	}{
		"unparsable": {`test "$(cat answer)" = 42 && ( echo`, "bash cannot parse verify command 2: "},
		"pattern":    {"shopt -s extglob\nls !(*.none) && false", ""},
	} {
		a.agent(t, "parse-"+name, cheat{agent: "echo 42 > answer"})

		record := a.grade(
			t,
			"parse-"+name,
			0,
			style{verifier: rollout.Verifier{Commands: []string{"true", c.command}}},
			5*time.Minute,
		)
		if c.why == "" {
			require.NotNil(t, record.Reward, "%s: %+v", name, record)
			require.InDelta(t, 0.5, *record.Reward, 0, "%s: %+v", name, record)

			continue
		}

		require.Nil(t, record.Reward, "%s: %+v", name, record)
		require.Contains(t, record.Grading.Why, c.why, "%s: %+v", name, record)
		require.Contains(t, record.Grading.Why, "syntax error", "%s: %+v", name, record)
	}
}
