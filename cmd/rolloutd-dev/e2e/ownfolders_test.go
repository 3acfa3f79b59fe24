package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/image/imagetest"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/taskset"
)

// ownFolderTask is a Harbor task whose image has files in the home and in /tmp. The work is the file answer, which has
// what all of them have.
func ownFolderTask(workdir, answer string) map[string]string {
	return map[string]string{
		"task.toml":      "",
		"instruction.md": "Write what the notes have into " + answer + ".",
		"environment/Dockerfile": "FROM scratch\nCOPY root /\nCOPY note /home/user/note\nCOPY note /tmp/note\n" +
			"COPY note " + workdir + "/given\nWORKDIR " + workdir + "\n",
		"environment/note": "4\n",
		"tests/want":       "444\n",
		"tests/test.sh": `#!/bin/bash
reward=0
# what the image has there, and its setup
read -r home < /home/user/note; read -r tmp < /tmp/note; read -r work < ` + workdir + `/given; read -r here < given
read -r want < /tests/want
[ "$home$tmp$work$here" = "4444" ] && [ ! -e ` + workdir + `/removed ] && [ -e ` + workdir + `/prepared ] && read -r answer < ` + answer + ` && [ "$answer" = "$want" ] && reward=1
# the verifier's own temporary file
echo "$answer" > /tmp/scratch && read -r answer < /tmp/scratch && [ "$answer" = "$want" ] || reward=0
echo $reward > /logs/verifier/reward.txt
`,
	}
}

// A workdir in the home or in /tmp has the image's files there, and goes to the verifier as the agent left it; so does
// /tmp where the instruction asks for the work there.
func TestWorkInOwnFolders(t *testing.T) {
	t.Parallel()

	srv := startDev(t, devOptions{env: []string{"ROLLOUTD_IMAGE_REGISTRIES=registry.invalid"}})

	for name, c := range map[string]struct{ workdir, answer string }{
		"home":       {"/home/user", "/home/user/answer"},
		"below home": {"/home/user/app", "/home/user/app/answer"},
		"tmp":        {"/tmp", "/tmp/answer"},
		"below tmp":  {"/tmp/x", "/tmp/x/answer"},
		"elsewhere":  {"/app", "/tmp/answer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			task := builtTask(t, srv, ownFolderTask(c.workdir, c.answer))
			solve := "read -r a < given; read -r b < /home/user/note; read -r c < /tmp/note; [ ! -e " + c.workdir + "/workdir/given ] && " +
				"echo $a$b$c > " + c.answer

			for solution, reward := range map[string]float64{
				solve:                                    1,
				"ln -s /verifier/tests/want " + c.answer: 0,
				solve + "; ln -s /logs/verifier/reward.txt /tmp/out": 1,
				solve + "; rm given": 0,
				"echo 443 > " + c.answer + "; echo 444 > /tmp/want; ln -s /tmp/want /tmp/scratch": 0,
			} {
				ask := args(task.Arguments())
				ask["agent"], ask["solution"] = rollout.AgentOracle, []string{solution}
				ask["setup"] = []string{"echo x > removed; rm removed; echo x > prepared"}
				result := runRollout(t, srv.url, ask)
				require.Equal(t, rollout.Completed, result.Outcome, deref(result.Error))
				require.NotNil(t, result.Reward, "%s: %+v", solution, result.Grading)
				require.InDelta(t, reward, *result.Reward, 0, "%s: %+v", solution, result.Grading)

				if solution == solve {
					again := regrade(t, srv.url, result.ID, args{"task": task.Arguments()})
					require.Empty(t, again.Error)
					require.InDelta(t, 1, *again.Reward, 0, "%+v", again.Grading)
				}
			}
		})
	}
}

// Live grading and the steps of a task find the work in such a workdir too.
func TestOwnFoldersLiveAndInSteps(t *testing.T) {
	t.Parallel()

	srv := startDev(t, devOptions{env: []string{"ROLLOUTD_IMAGE_REGISTRIES=registry.invalid"}})

	for name, workdir := range map[string]string{"home": "/home/user", "below home": "/home/user/app", "tmp": "/tmp"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			task := builtTask(t, srv, ownFolderTask(workdir, workdir+"/answer"))

			live := args(task.Arguments())
			live["agent"], live["solution"] = rollout.AgentOracle, []string{"echo 444 > answer"}
			live["setup"] = []string{"echo x > prepared"}
			live["verifier"] = args{"grade": rollout.GradeLive}
			steps := args{
				"instruction": "two numbers", "agent": rollout.AgentOracle, "sandbox": live["sandbox"],
				"steps": []args{
					{
						"name": "first", "instruction": "write it", "solution": []string{"rm given; echo 1 > one"},
						"verify": []string{"read -r a < " + workdir + "/one && [ $a = 1 ]"},
					},
					{
						"name": "second", "instruction": "again", "solution": []string{"read -r a < one; echo $a$a > two"},
						"verify": []string{"read -r a < two && [ $a = 11 ] && [ ! -e given ] && read -r a < /home/user/note && [ $a = 4 ]"},
					},
				},
			}

			for kind, ask := range map[string]args{"live": live, "steps": steps} {
				result := runRollout(t, srv.url, ask)
				require.Equal(t, rollout.Completed, result.Outcome, deref(result.Error))
				require.NotNil(t, result.Reward, "%s: %+v", kind, result.Grading)
				require.InDelta(t, 1, *result.Reward, 0, "%s: %+v %+v", kind, result.Grading, result.Steps)
			}
		})
	}
}

// builtTask is a Harbor task of these files, whose image is built. The image's context has a few programs.
func builtTask(t *testing.T, srv *dev, files map[string]string) taskset.Task {
	t.Helper()

	dir := filepath.Join(t.TempDir(), "task")

	writeFiles(t, dir, files)

	root := filepath.Join(dir, "environment/root")
	require.NoError(t, os.MkdirAll(root, 0o755))
	require.NoError(t, errors.Join(imagetest.Fill(root, []string{"bash", "ln", "rm"}), imagetest.Glibc(root)))

	return buildTask(t, srv, dir)
}
