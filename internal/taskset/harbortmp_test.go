package taskset_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The agent's /tmp is graded where the instruction and the tests name the same file or folder there. What the tests alone
// name is the verifier's own.
func TestHarborTemporary(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		dockerfile, instruction, tests string
		graded                         bool
	}{
		"file":           {"FROM x\n", "Write /tmp/answer.txt.", "cat /tmp/answer.txt", true},
		"folder":         {"FROM x\n", "Write to `/tmp/out/`", "ls /tmp/out/a", true},
		"of the tests":   {"FROM x\n", "Write answer.txt.", "cat answer.txt > /tmp/scratch", false},
		"another":        {"FROM x\n", "Do not use /tmp/x.", "cat /tmp/answer.txt", false},
		"without image":  {"", "Write /tmp/answer.txt.", "cat /tmp/answer.txt", false},
		"another folder": {"FROM x\n", "Write /var/answer.", "cat /tmp/answer", false},
		"of /var":        {"FROM x\n", "Write /var/tmp/answer.", "cat /var/tmp/answer", false},
		"at the begin":   {"FROM x\n", "/tmp/answer is what to write.", "cat </tmp/answer", true},
	} {
		files := map[string]string{"instruction.md": c.instruction, "tests/test.sh": "#!/bin/bash\n" + c.tests + "\n"}
		if c.dockerfile != "" {
			files["environment/Dockerfile"] = c.dockerfile
		}

		task, err := open(t, folder(t, harborTask(files))).Task(0)
		require.NoError(t, err, name)
		require.Equal(t, c.graded, task.Sandbox["grade_paths"] != nil, name)
	}

	for instruction, want := range map[string]any{
		"Write /tmp/x and /logs/artifacts/report.": []string{"/tmp", "/logs/artifacts"},
		"Write /logs/artifacts/report.":            []string{"/logs/artifacts"},
		"Write report.":                            nil,
	} {
		published, err := open(t, folder(t, harborTask(map[string]string{
			"environment/Dockerfile": "FROM x\n", "instruction.md": instruction,
			"tests/test.sh": "python3 /tests/check.py", "tests/check.py": "open('/tmp/x'); open('/logs/artifacts/report')",
		}))).Task(0)
		require.NoError(t, err)
		require.Equal(t, want, published.Sandbox["grade_paths"], instruction)
	}

	separate, err := open(t, folder(t, harborTask(map[string]string{
		"task.toml": separateSettings("", "", ""), "instruction.md": "Write /tmp/x.", "tests/test.sh": "cat /tmp/x",
	}))).Task(0)
	require.NoError(t, err)
	require.Equal(t, []string{"/logs/artifacts"}, separate.Sandbox["grade_paths"], "a separate verifier gets the artifacts alone")

	for _, workdir := range []string{"/home/user", "/home/user/app", "/tmp", "/tmp/x"} {
		_, err := open(t, folder(t, harborTask(map[string]string{"environment/Dockerfile": "FROM x\nWORKDIR " + workdir + "\n"}))).Task(0)
		require.NoError(t, err, workdir)
	}

	_, err = open(t, folder(t, harborTask(map[string]string{"environment/Dockerfile": "FROM x\nWORKDIR /home/user/logs/x\n"}))).Task(0)
	require.ErrorContains(t, err, "WORKDIR: must be outside /home/user/logs, which has files of rolloutd")
}

// An agent of Harbor has folders for logs and artifacts. They are graded where an instruction or a solution names them; what
// the tests alone expect there is noted.
func TestHarborLogFolders(t *testing.T) {
	t.Parallel()

	const tests = "cat /logs/agent/answer.txt"

	for name, c := range map[string]struct {
		instruction, solution, tests string
		separate                     bool
		graded                       []string
		note                         string
	}{
		"instruction": {"Write /logs/agent/answer.txt.", "", tests, false, []string{"/logs/agent"}, ""},
		"solution":    {"Answer.", "echo a | tee /logs/agent/answer.txt", tests, false, []string{"/logs/agent"}, ""},
		"both": {
			"Answer.", "cp /logs/agent/a /logs/artifacts/a", "true", false, []string{"/logs/artifacts", "/logs/agent"}, "",
		},
		"separate":   {"Answer.", "echo > /logs/agent/log", "true", true, []string{"/logs/artifacts", "/logs/agent"}, ""},
		"tests only": {"Answer.", "", "cat /logs/agent/trajectory.json", false, nil, "the tests name /logs/agent, which is empty here"},
		"reward":     {"Write /logs/verifier/a.", "", "true", false, nil, "names /logs/verifier: only the tests have it here"},
	} {
		files := map[string]string{
			"environment/Dockerfile": "FROM x\n", "instruction.md": c.instruction, "tests/test.sh": "#!/bin/bash\n" + c.tests + "\n",
		}
		if c.solution != "" {
			files["solution/solve.sh"] = "#!/bin/bash\n" + c.solution + "\n"
		}

		if c.separate {
			files["task.toml"] = separateSettings("", "", "")
		}

		task, err := open(t, folder(t, harborTask(files))).Task(0)
		require.NoError(t, err, name)

		graded, _ := task.Sandbox["grade_paths"].([]string)
		require.Equal(t, c.graded, graded, name)

		if c.note == "" {
			require.Empty(t, task.Notes, name)
		} else {
			require.Len(t, task.Notes, 1, name)
			require.Contains(t, task.Notes[0], c.note, name)
		}
	}
}
