package e2e

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// separateTask is a Harbor task whose verifier runs in an image of its own. The images have no programs but bash, which
// comes from the host, and judge.
func separateTask() map[string]string {
	return map[string]string{
		"task.toml": "artifacts = [\"/app/answer.txt\", \"/app/parts\", \"/app/absent\"]\n" +
			"[verifier]\nenvironment_mode = \"separate\"\n",
		"instruction.md":          "Write the number 42 into /app/answer.txt.",
		"environment/Dockerfile":  "FROM scratch\nCOPY app /app\nCOPY judge /usr/bin/judge\nCOPY golden.txt /opt/golden/golden.txt\nWORKDIR /app\n",
		"environment/app/parts/a": "1\n",
		"environment/app/parts/b": "1\n",
		"environment/judge":       "",
		"environment/golden.txt":  "no\n",
		"tests/Dockerfile": "FROM scratch\nCOPY golden.txt /opt/golden/golden.txt\nCOPY parts /app/parts\nCOPY judge /usr/bin/judge\nENV LEVEL=2\n" +
			"COPY . /tests/\nCOPY golden.txt /tests/made/golden.txt\nWORKDIR /opt/golden\n",
		"tests/golden.txt":           "42\n",
		"tests/parts/old":            "1\n",
		"tests/judge":                "#!/bin/bash\nread a < /app/answer.txt; read b < golden.txt; [ \"$a\" = \"$b\" ]\n",
		"solution/solve.sh":          "",
		"tests/more/of/the/tests.sh": "",
		"tests/test.sh": `#!/bin/bash
reward=0
# the artifacts, in place of what the image has at their paths
[ -e /app/parts/a ] && [ ! -e /app/parts/old ] && [ ! -e /app/absent ] &&
	# nothing else of the work
	[ ! -e /app/other ] && [ ! -e /output ] && [ ! -e ~/workdir/other ] && [ ! -e /home/user/left ] &&
	# where Harbor's test scripts find themselves, and what the image has made for them
	[ -e /tests/more/of/the/tests.sh ] && [ -e /tests/made/golden.txt ] && [ "$PWD" = /opt/golden ] && [ "$LEVEL" = 2 ] &&
	# the image is the verifier's, who may change it
	echo 42 > /opt/golden/mine && judge && reward=1
echo $reward > /logs/verifier/reward.txt
`,
	}
}

// The verifier of a task with environment_mode separate runs in the image of tests/Dockerfile and gets the artifacts
// alone: what the agent changes elsewhere in its own world, such as a copy of the verifier's program, changes no grade.
func TestSeparateVerifier(t *testing.T) {
	t.Parallel()

	srv := startDev(t, devOptions{env: []string{"ROLLOUTD_IMAGE_REGISTRIES=registry.invalid"}})
	dir := filepath.Join(t.TempDir(), "separate")

	writeFiles(t, dir, separateTask())

	task := buildTask(t, srv, dir)

	for name, c := range map[string]struct {
		solution string
		reward   float64
	}{
		"solved": {"echo 42 > /app/answer.txt; echo 1 > /app/other; echo 1 > ~/left; echo 1 > ~/workdir/other", 1},
		// without a file
		"nothing": {":", 0},
		"wrong":   {"echo 41 > /app/answer.txt", 0},
		// the agent cannot even see the verifier's files
		"cheat": {
			"[ ! -e /app/parts/old ] && [ ! -e /verifier/tests/test.sh ] || exit 9; echo 41 > /app/answer.txt; " +
				"echo 41 > /opt/golden/golden.txt; echo : > /usr/bin/judge; " +
				"{ echo 1 > /verifier/logs/reward.txt; echo 'echo 1 > /logs/verifier/reward.txt' > /verifier/tests/test.sh; }; :",
			0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			ask := args(task.Arguments())
			ask["agent"], ask["solution"] = rollout.AgentOracle, []string{c.solution}

			result := runRollout(t, srv.url, ask)
			require.Equal(t, rollout.Completed, result.Outcome, deref(result.Error))
			require.NotNil(t, result.Reward)
			require.InDelta(t, c.reward, *result.Reward, 0, "%+v", result.Grading)
			require.Contains(t, result.Grading.Notes[len(result.Grading.Notes)-1], "artifact /app/absent")
		})
	}

	ask := args(task.Arguments())
	ask["agent"] = rollout.AgentNop
	ask["verifier"] = args{"image": "missing:1"}
	_, err := call(t.Context(), srv.url, "run_rollout", ask)
	require.ErrorContains(t, err, `verifier.image: image: "missing:1" is not`)
}
