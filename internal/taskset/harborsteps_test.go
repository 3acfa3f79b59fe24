package taskset_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/taskset"
)

const stepSettings = `multi_step_reward_strategy = "final"
[verifier.env]
LEVEL = "1"
[agent]
timeout_sec = 300
[[steps]]
name = "first"
min_reward = 0.5
[[steps]]
name = "second"
min_reward = { quality = 1, speed = 0.25 }
[steps.agent]
timeout_sec = 60
[steps.verifier]
timeout_sec = 30
[steps.verifier.env]
LEVEL = "2"
[steps.healthcheck]
command = "test -f ready"
[[steps]]
name = "third"
`

// stepTask is a Harbor task of three steps: the second has files, tests and a solution of its own.
func stepTask(t *testing.T) taskset.Task {
	t.Helper()

	task, err := open(t, folder(t, map[string]string{
		"task.toml":                      stepSettings,
		"environment/base.txt":           "base",
		"tests/test.sh":                  "shared",
		"tests/check.py":                 "old",
		"solution/solve.sh":              "all",
		"steps/first/instruction.md":     "<!-- canary 1 -->\n\nFirst.",
		"steps/first/workdir/a.txt":      "a",
		"steps/second/instruction.md":    "Second.",
		"steps/second/workdir/setup.sh":  "touch ready",
		"steps/second/tests/test.sh":     "#!/bin/bash\nown",
		"steps/second/tests/check.py":    "new",
		"steps/second/tests/key.bin":     "\xff",
		"steps/second/solution/solve.sh": "own",
		"steps/third/instruction.md":     "Third.",
	})).Task(0)
	require.NoError(t, err)

	return task
}

func TestHarborSteps(t *testing.T) {
	t.Parallel()

	task := stepTask(t)
	require.Equal(t, "final", task.RewardStrategy)
	require.Equal(t, 300.0, task.AgentTimeoutS)
	require.Equal(t, "First.", task.Instruction, "without the mark of the benchmark")
	require.Empty(t, task.Files, "they are the first step's")
	require.Len(t, task.Steps, 3)

	first, second, third := task.Steps[0], task.Steps[1], task.Steps[2]
	require.Equal(t, map[string]string{"base.txt": "base", "a.txt": "a"}, first.Files)
	require.Equal(t, map[string]float64{"reward": 0.5}, first.MinReward)
	require.Equal(t, "export LEVEL='1'; \nshared", first.TestScript)
	require.Equal(t, map[string]string{"check.py": "old"}, first.TestFiles)
	require.Equal(t, 600.0, first.VerifierS, "Harbor's default")
	require.Equal(t, rollout.AnyReward(), first.RewardRange)
	require.Zero(t, first.AgentTimeoutS, "that of the task")

	require.Equal(t, map[string]float64{"quality": 1, "speed": 0.25}, second.MinReward)
	require.Equal(t, 60.0, second.AgentTimeoutS)
	require.Equal(t, 30.0, second.VerifierS)
	require.Equal(t, "#!/bin/bash\nexport LEVEL='2'; \nown", second.TestScript)
	require.Equal(t, map[string]string{"check.py": "new"}, second.TestFiles)
	require.Contains(t, second.Uploads, rollout.TestsDir+"/key.bin")
	require.FileExists(t, task.Local[second.Uploads[rollout.TestsDir+"/key.bin"]])
	require.Equal(t, map[string]string{"setup.sh": "touch ready"}, second.Files)
	require.Equal(t, "bash setup.sh", second.Setup[0])
	require.Contains(t, second.Setup[1], "test -f ready")

	require.Empty(t, third.Files)
	require.Equal(t, first.Solution, third.Solution, "that of the task")
	require.NotEqual(t, first.Solution, second.Solution)
}

func TestStepsAreArguments(t *testing.T) {
	t.Parallel()

	args := stepTask(t).Arguments()
	require.Equal(t, "First.", args["instruction"])
	require.Equal(t, "final", args["reward_strategy"])
	require.NotContains(t, args, "upload_files")
	require.NotContains(t, args, "test_script")

	steps := args["steps"].([]any)
	require.Len(t, steps, 3)

	second := steps[1].(map[string]any)
	require.Equal(t, "second", second["name"])
	require.Equal(t, map[string]float64{"quality": 1, "speed": 0.25}, second["min_reward"])
	require.Equal(t, 60.0, second["agent_timeout_s"])
	require.NotContains(t, steps[2], "upload_files")
}
