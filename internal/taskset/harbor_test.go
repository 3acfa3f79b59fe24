package taskset_test

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

const harborSettings = `version = "1.0"
[metadata]
author_name = "A"
difficulty = "easy"
[agent]
timeout_sec = 120.0
[verifier]
timeout_sec = 60.0
[environment]
build_timeout_sec = 600.0
cpus = 2
memory_mb = 2048
storage_mb = 512
gpus = 0
mcp_servers = []
[environment.env]
`

func harborTask(changes map[string]string) map[string]string {
	files := map[string]string{
		"task.toml":                  harborSettings,
		"instruction.md":             "Write hello.txt.\n",
		"environment/data.txt":       "1\n",
		"environment/docs/readme.md": "x\n",
		"tests/test.sh":              "#!/bin/bash\necho 1 > /home/user/logs/verifier/reward.txt\n",
		"tests/check.py":             "pass\n",
		"solution/solve.sh":          "#!/bin/bash\ncp ~/solution/hello.txt .\n",
		"solution/hello.txt":         "it's\n",
	}
	for name, text := range changes {
		files[name] = text
		if text == "-" {
			delete(files, name)
		}
	}

	return files
}

func below(folder string, files map[string]string) map[string]string {
	out := map[string]string{}
	for name, text := range files {
		out[folder+"/"+name] = text
	}

	return out
}

func TestHarborDataset(t *testing.T) {
	t.Parallel()

	files := below("tasks/hello", harborTask(nil))
	for name, text := range below("tasks/group/other", harborTask(map[string]string{"instruction.md": "-"})) {
		files[name] = text
	}

	files["registry.yaml"] = "not: a task"
	s := open(t, folder(t, files))
	require.Equal(t, []string{"group/other", "hello"}, names(s), "the files of a task are no tasks")
	task, err := s.Task(1)
	require.NoError(t, err)
	require.Equal(t, "hello", task.ID)
	args := task.Arguments()
	require.Equal(t, "Write hello.txt.\n", args["instruction"])
	require.Equal(t, map[string]string{"data.txt": "1\n", "docs/readme.md": "x\n"}, args["upload_files"])
	require.Equal(t, map[string]string{"check.py": "pass\n"}, args["test_files"])
	require.Contains(t, args["test_script"], "echo 1")
	require.Equal(t, map[string]any{"verifier_s": 60.0}, args["limits"])
	require.Equal(t, map[string]any{"cpu": 2.0, "memory_mib": 2048, "disk_mib": 512}, args["sandbox"])
	require.Equal(t, 120.0, args["agent_timeout_s"])
	require.Equal(t, []string{
		`mkdir -p "$(dirname '/home/user/solution/hello.txt')" && base64 -d > '/home/user/solution/hello.txt' <<< 'aXQncwo='`,
		`mkdir -p "$(dirname '/home/user/solution/solve.sh')" && base64 -d > '/home/user/solution/solve.sh' <<< 'IyEvYmluL2Jhc2gKY3Agfi9zb2x1dGlvbi9oZWxsby50eHQgLgo='`,
	}, args["solution"].([]string)[:2])
	require.Contains(t, args["solution"].([]string)[2], "exec /solution/solve.sh")

	_, err = s.Task(0)
	require.ErrorContains(t, err, "other: instruction.md: is missing")
}

// A WORKDIR of another stage is not that of the image.
func TestWorkdirOfAnotherStage(t *testing.T) {
	t.Parallel()

	_, err := open(t, folder(t, harborTask(map[string]string{
		"task.toml":              "",
		"environment/Dockerfile": "FROM x AS build\nWORKDIR /usr/src\nWORKDIR /usr/lib/x\nFROM y\nRUN <<E\nWORKDIR /etc\nE\n",
	}))).Task(0)
	require.NoError(t, err)
}

// Tests that do not fit into a task are sent before it, the largest ones first. A solution that does not fit is none.
func TestLargeFilesOfATask(t *testing.T) {
	t.Parallel()

	large := strings.Repeat("x", 2<<20)
	dir := folder(t, harborTask(map[string]string{"tests/large.json": large, "tests/half.json": large[:1<<20], "solution/large": large}))

	task, err := open(t, dir).Task(0)
	require.NoError(t, err)
	require.Equal(t, []string{"check.py", "half.json"}, slices.Sorted(maps.Keys(task.TestFiles)))
	require.Equal(t, filepath.Join(dir, "tests/large.json"), task.Local[task.Uploads["/home/user/tests/large.json"]])
	require.Contains(t, task.TestScript, "echo 1")
	require.False(t, task.HasSolution())
	require.Len(t, task.Notes, 1)
	require.Contains(t, task.Notes[0], "solution: has 2796")

	files := harborTask(map[string]string{
		"task.toml":           "[[steps]]\nname = \"one\"\n[[steps]]\nname = \"two\"\n",
		"tests/half.json":     large[:1<<20],
		"steps/one/workdir/w": large,
	})
	for _, step := range []string{"one", "two"} {
		files["steps/"+step+"/instruction.md"] = "x"
		files["steps/"+step+"/tests/test.sh"] = files["tests/test.sh"]
	}

	dir = folder(t, files)
	task, err = open(t, dir).Task(0)
	require.NoError(t, err)

	first, second := task.Steps[0], task.Steps[1]
	require.Contains(t, first.TestFiles, "half.json")
	require.Equal(t, filepath.Join(dir, "steps/one/workdir/w"), task.Local[first.Uploads["w"]])
	require.Equal(t, filepath.Join(dir, "tests/half.json"), task.Local[second.Uploads["/home/user/tests/half.json"]])
	require.NotEmpty(t, second.Solution)
	require.NotEmpty(t, second.TestScript)
}

// A solution's programs are programs where it runs.
func TestProgramsOfASolution(t *testing.T) {
	t.Parallel()

	dir := folder(t, harborTask(map[string]string{"solution/bin/answer": "#!/bin/sh\n"}))
	require.NoError(t, os.Chmod(filepath.Join(dir, "solution/bin/answer"), 0o700))

	task, err := open(t, dir).Task(0)
	require.NoError(t, err)
	require.True(t, strings.HasSuffix(task.Solution[0], " && chmod +x '/home/user/solution/bin/answer'"), task.Solution[0])
	require.NotContains(t, task.Solution[1], "chmod")
}

// A task that names an image runs in it as a container would.
func TestHarborImage(t *testing.T) {
	t.Parallel()

	for workdir, line := range map[string]string{"image": "", "/srv/app": "workdir = \"/srv/app\"\n"} {
		s := open(t, folder(t, harborTask(map[string]string{
			"task.toml": "[environment]\ndocker_image = \"python:3.13\"\n" + line, "environment/Dockerfile": "FROM x\n",
		})))
		task, err := s.Task(0)
		require.NoError(t, err)
		require.Equal(t, map[string]any{
			"image":     "python:3.13",
			"user":      "image",
			"workdir":   workdir,
			"image_env": true,
		}, task.Arguments()["sandbox"])
		require.Empty(t, task.Arguments()["upload_files"], "they are in the image")
	}
}

// The files of an image's task are in the working directory if nothing says how to build them in, as in Harbor.
func TestFilesBesideAnImage(t *testing.T) {
	t.Parallel()

	files := map[string]string{"data.txt": "1\n", "docs/readme.md": "x\n"}

	for name, want := range map[string]any{"": files, "environment/Dockerfile": nil, "environment/docker-compose.yaml": nil} {
		changes := map[string]string{"task.toml": "[environment]\ndocker_image = \"app:1\"\n"}
		if name != "" {
			changes[name] = "services: {}"
		}

		task, err := open(t, folder(t, harborTask(changes))).Task(0)
		require.NoError(t, err)
		require.Equal(t, want, task.Arguments()["upload_files"], name)
	}
}

// The agent runs as the user that the task names, by name or by number.
func TestHarborUser(t *testing.T) {
	t.Parallel()

	for line, want := range map[string]string{
		"user = \"agent\"": "agent",
		"user = 1500":      "1500",
		"user = \"root\"":  "root",
	} {
		s := open(t, folder(t, harborTask(map[string]string{
			"task.toml":              "[environment]\ndocker_image = \"python:3.13\"\n[agent]\n" + line + "\n",
			"environment/Dockerfile": "FROM x\n",
		})))
		task, err := s.Task(0)
		require.NoError(t, err)

		sandbox, _ := task.Arguments()["sandbox"].(map[string]any)
		require.Equal(t, want, sandbox["user"])
	}
}

// Files of a task that are not text are uploads: in the tests folder, or in the working directory.
func TestHarborFilesThatAreNotText(t *testing.T) {
	t.Parallel()
	dir := folder(t, harborTask(map[string]string{
		"tests/mask.png":     "\x89PNG\x00\xff",
		"environment/db.bin": "\x00",
		"tests/test.sh":      "echo '{}' > /logs/verifier/reward.json",
	}))
	task, err := open(t, dir).Task(0)
	require.NoError(t, err)
	require.Len(t, task.Uploads, 2)

	for name, path := range map[string]string{
		rollout.TestsDir + "/mask.png": "tests/mask.png",
		"db.bin":                       "environment/db.bin",
	} {
		local := task.Local[task.Uploads[name]]
		require.Equal(t, filepath.Join(dir, path), local)
		require.FileExists(t, local)
	}
}

// Variables have the values that Harbor gives them without its own environment.
func TestHarborVariables(t *testing.T) {
	t.Parallel()

	task, err := open(t, folder(t, harborTask(map[string]string{
		"task.toml": "[environment.env]\nMODE = \"it's\"\nPORT = \"${PORT:-80}\"\nNONE = \"${NONE:-}\"\nURL = \"http://$HOST\"\n" +
			"[verifier.env]\nLEVEL = \"it's\"\n[solution.env]\nANSWER = \"42\"\n",
		"tests/test.sh": "#!/bin/bash\necho 1\n",
	}))).Task(0)
	require.NoError(t, err)

	args := task.Arguments()
	require.Equal(t, map[string]any{
		"env": map[string]string{"MODE": "it's", "PORT": "80", "NONE": "", "URL": "http://$HOST"},
	}, args["sandbox"])
	require.Equal(t, "#!/bin/bash\nexport LEVEL='it'\\''s'; \necho 1\n", args["test_script"])
	require.Contains(t, args["solution"].([]string)[2], "export ANSWER='42'; chmod +x")
}

// Older tasks write sizes as text.
func TestHarborSizesAsText(t *testing.T) {
	t.Parallel()

	for _, size := range []string{"10G", "10gb", "10GiB", "10240M", "10.0G", " 10g ", "10485760K"} {
		task, err := open(t, folder(t, harborTask(map[string]string{
			"task.toml":     "[environment]\ndocker_image = \"app:1\"\nstorage = \"" + size + "\"\n",
			"tests/test.sh": "#!/bin/bash\necho 1\n",
		}))).Task(0)
		require.NoError(t, err)

		require.EqualValues(t, 10240, task.Arguments()["sandbox"].(map[string]any)["disk_mib"], size)
	}
}

// Harbor's defaults are not those of other tasks: ten minutes for the tests, which may write any number.
func TestHarborVerifierDefaults(t *testing.T) {
	t.Parallel()

	for settings, seconds := range map[string]float64{"": 600, "[verifier]\ntimeout_sec = 60.0\n": 60} {
		task, err := open(t, folder(t, harborTask(map[string]string{"task.toml": settings}))).Task(0)
		require.NoError(t, err)

		args := task.Arguments()
		require.Equal(t, map[string]any{"verifier_s": seconds}, args["limits"])
		require.Equal(t, rollout.AnyReward(), args["reward_range"])
	}
}

// Harbor runs the test script by its first line.
func TestHarborInterpreter(t *testing.T) {
	t.Parallel()

	for line, want := range map[string]string{
		"#!/bin/bash":                           "",
		"#!/bin/sh -l":                          "",
		"#! /usr/bin/env bash":                  "",
		"#!/bin/bash -eu":                       "set -eu; \n",
		"#!/usr/bin/env -S bash -e -o pipefail": "set -e -o pipefail; \n",
	} {
		task, err := open(t, folder(t, harborTask(map[string]string{"tests/test.sh": line + "\necho 1\n"}))).Task(0)
		require.NoError(t, err, line)
		require.Equal(t, line+"\n"+want+"echo 1\n", task.Arguments()["test_script"])
	}

	for line, message := range map[string]string{
		"#!/usr/bin/env python3": `tests/test.sh: "#!/usr/bin/env python3": must be a script of bash or sh`,
		"#!/bin/bash\r":          "tests/test.sh: lines end as on Windows",
		"#!/bin/bash -c date":    "options must be those of set, such as -eu",
		"#!/bin/bash -e; date":   "options must be those of set",
	} {
		_, err := open(t, folder(t, harborTask(map[string]string{"tests/test.sh": line + "\necho 1\n"}))).Task(0)
		require.ErrorContains(t, err, message)
	}
}

func TestHarborNetwork(t *testing.T) {
	t.Parallel()

	const list = "network_mode = \"allowlist\"\nallowed_hosts = [\"a.org\", \"*.b.org\"]\n"

	for settings, want := range map[string]any{
		"": nil,
		"[environment]\nnetwork_mode = \"public\"\n": nil,
		"[environment]\nnetwork_mode = \"no-network\"\n": map[string]any{
			"setup": []string{}, "agent": []string{},
		},
		"[agent]\nnetwork_mode = \"no-network\"\n":                           map[string]any{"agent": []string{}},
		"[environment]\nallow_internet = true\n":                             nil,
		"[environment]\nallow_internet = false\n":                            map[string]any{"setup": []string{}, "agent": []string{}},
		"[environment]\nallow_internet = false\nnetwork_mode = \"public\"\n": nil,
		"[environment]\nnetwork_mode = \"no-network\"\n[agent]\nnetwork_mode = \"public\"\n": map[string]any{
			"setup": []string{},
		},
		"[environment]\nnetwork_mode = \"allowlist\"\n": map[string]any{"setup": []string{}, "agent": []string{}},
		"[environment]\n" + list:                        map[string]any{"allow": []string{"a.org", "*.b.org"}},
		"[agent]\n" + list:                              map[string]any{"agent": []string{"a.org", "*.b.org"}},
		"[environment]\n" + list + "[agent]\nnetwork_mode = \"no-network\"\n": map[string]any{
			"setup": []string{"a.org", "*.b.org"}, "agent": []string{},
		},
		"[environment]\n" + list + "[agent]\nnetwork_mode = \"public\"\n": map[string]any{
			"setup": []string{"a.org", "*.b.org"},
		},
		"[verifier]\nnetwork_mode = \"no-network\"\n[environment]\n" + list: map[string]any{
			"allow": []string{"a.org", "*.b.org"},
		},
	} {
		task, err := open(t, folder(t, harborTask(map[string]string{"task.toml": settings}))).Task(0)
		require.NoError(t, err, settings)
		require.Equal(t, want, task.Arguments()["network"], settings)
	}
}

func TestOneHarborTaskIsASet(t *testing.T) {
	t.Parallel()
	s := open(t, folder(t, harborTask(nil)))
	require.Equal(t, 1, s.Len())
	_, err := s.Task(0)
	require.NoError(t, err)
}

func TestBrokenHarborTasks(t *testing.T) {
	t.Parallel()

	for want, changes := range map[string]map[string]string{
		"instruction.md: is missing":                       {"instruction.md": "-"},
		"tests/test.sh: is missing":                        {"tests/test.sh": "-"},
		"environment/Dockerfile: WORKDIR: must be outside": {"environment/Dockerfile": "FROM x\nWORKDIR /usr/bin\n"},
		"WORKDIR: must be outside the folders of the system and of the sandbox, whose files do not go to the verifier; got /usr/x": {
			"environment/Dockerfile": "ARG TOP=/usr\nFROM x AS a\nARG TOP\nENV AT=$TOP/x\nFROM a\nWORKDIR /app\nWORKDIR $AT\n",
		},
		"WORKDIR: must be a folder below /opt,": {"environment/Dockerfile": "FROM x\nWORKDIR /opt\n"},
		"environment/a/b: WORKDIR: must be a folder below /opt": {
			"environment/a/b":                 "FROM x\nWORKDIR /opt\n",
			"environment/docker-compose.yaml": "services: {main: {build: {context: a, dockerfile: b}}}",
		},
		"instruction.md: must be text in UTF-8":             {"instruction.md": "\xff"},
		": trajectory.json: is not supported":               {"trajectory.json": "{}"},
		"steps/a/trajectory.json: is not supported":         {"task.toml": "[[steps]]\nname = \"a\"\n", "steps/a/trajectory.json": "{}"},
		"environment.storage: must be a size such as":       {"task.toml": "[environment]\nstorage = \"much\"\n"},
		"environment.storage: must be a size such as 10G":   {"task.toml": "[environment]\nstorage = \"infG\"\n"},
		"task.toml: environment.workdir: needs":             {"task.toml": "[environment]\nworkdir = \"/app\"\n"},
		"steps/a/instruction.md: is missing":                {"task.toml": "[[steps]]\nname = \"a\"\n"},
		"steps[0].name: must be the name of a folder":       {"task.toml": "[[steps]]\nname = \"../a\"\n"},
		"steps[0].min_reward: must be a number or":          {"task.toml": "[[steps]]\nname = \"a\"\nmin_reward = \"x\"\n"},
		"steps[0].verifier.user: is not supported":          {"task.toml": "[[steps]]\nname = \"a\"\n[steps.verifier]\nuser = \"x\"\n"},
		"task.toml: environment.gpus: is not supported":     {"task.toml": "[environment]\ngpus = 1\n"},
		"task.toml: verifier.env.KEY: must be a value that": {"task.toml": "[verifier.env]\nKEY = \"${KEY}\"\n"},
		"environment.env.HOME: is the sandbox's own":        {"task.toml": "[environment.env]\nHOME = \"/\"\n"},
		"solution.env: must have names of letters":          {"task.toml": "[solution.env]\n\"A B\" = \"1\"\n"},
		"verifier.network_mode: grading reaches no":         {"task.toml": "[verifier]\nnetwork_mode = \"allowlist\"\n"},
		"agent.network_mode: must be public, no-network":    {"task.toml": "[agent]\nnetwork_mode = \"some\"\n"},
		"environment.allowed_hosts: needs network_mode":     {"task.toml": "[environment]\nallowed_hosts = [\"a.org\"]\n"},
		"task.toml: line 1":                                 {"task.toml": "version = = 1\n"},
		"task.toml: must be at most 65536 bytes":            {"task.toml": strings.Repeat("#", 65537)},
		"instruction: must not be empty":                    {"instruction.md": " \n"},
		"agent_timeout_s: must be 0 or more seconds":        {"task.toml": "[agent]\ntimeout_sec = nan\n"},
	} {
		s := open(t, folder(t, below("x", harborTask(changes))))
		_, err := s.Task(0)
		require.ErrorContains(t, err, want, want)
		require.Contains(t, err.Error(), string(filepath.Separator)+"x: ", "names the task")
	}
}

func FuzzHarborSettings(f *testing.F) {
	f.Add(harborSettings, "do it")
	f.Add("[[steps]]\n[verifier]\nenv = 1\n", "x")
	f.Fuzz(func(t *testing.T, settings, instruction string) {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "task.toml"), []byte(settings), 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "instruction.md"), []byte(instruction), 0o600))
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "tests"), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "tests", "test.sh"), []byte("true"), 0o600))
		readAll(t, dir)
	})
}

// A healthcheck is a command of the setup: it passes as soon as its command does, and fails after its retries.
func TestHarborHealthcheck(t *testing.T) {
	t.Parallel()

	settings := func(lines string) map[string]string {
		return harborTask(map[string]string{"task.toml": harborSettings + "[environment.healthcheck]\n" + lines})
	}
	run := func(command string) (string, error) {
		set := open(t, folder(t, settings(command)))
		task, err := set.Task(0)
		require.NoError(t, err)
		require.Len(t, task.Setup, 1)

		cmd := exec.CommandContext(t.Context(), "bash", "-c", task.Setup[0])
		cmd.Dir = t.TempDir()
		out, err := cmd.CombinedOutput()

		return string(out), err
	}

	out, err := run("command = \"[ \\\"$(cat tries 2>&1)\\\" = xx ] || { printf x >> tries; false; }\"\ninterval_sec = 0.01\nretries = 3\n")
	require.NoError(t, err, out)

	out, err = run("command = \"echo it is down; false\"\ninterval_sec = 0.01\nretries = 2\n")
	require.Error(t, err)
	require.Equal(t, "it is down\nit is down\ntask.toml: environment.healthcheck failed 2 times\n", out)

	out, err = run("command = \"printf x >> tries; [ $(wc -c < tries) = 5 ]\"\n" +
		"start_period_sec = 600\nstart_interval_sec = 0.01\nretries = 1\n")
	require.NoError(t, err, "failures of the start period do not count: "+out)

	for lines, want := range map[string]string{
		"retries = 2\n":                             "environment.healthcheck.command: is missing",
		"command = 'x'\ninterval_sec = -1\n":        "environment.healthcheck.interval_sec: must be a number of seconds",
		"command = 'x'\nstart_period_sec = 1e9\n":   "environment.healthcheck.start_period_sec: must be",
		"command = 'x'\nretries = -1\n":             "environment.healthcheck.retries: must be at least 1, got -1",
		"command = 'x'\nstart_interval_sec = nan\n": "environment.healthcheck.start_interval_sec: must be",
	} {
		_, err := open(t, folder(t, settings(lines))).Task(0)
		require.ErrorContains(t, err, want)
	}
}
