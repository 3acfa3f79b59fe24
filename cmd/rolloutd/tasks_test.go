package main

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/config"
	"github.com/rolloutd/rolloutd/internal/daemon"
	hostimages "github.com/rolloutd/rolloutd/internal/daemon/images"
	"github.com/rolloutd/rolloutd/internal/taskset"
)

func taskFolder(t *testing.T, files map[string]string) string {
	t.Helper()

	dir := t.TempDir()
	for name, text := range files {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}

	return dir
}

func TestTasksLs(t *testing.T) {
	t.Parallel()
	dir := taskFolder(t, map[string]string{
		"a.yaml": `instruction: "first\e[2J thing"`,
		"b.yaml": "instruction: x\nverfy: [a]\n",
		"c.yaml": "instruction: third\n",
	})
	config := filepath.Join(
		taskFolder(t, map[string]string{"c.yaml": "task_sets: {mine: {path: " + dir + "}}"}),
		"c.yaml",
	)
	code, out, errText := rolloutd(t.Context(), nil, "tasks", "ls", "mine", "--config", config)
	require.Zero(t, code, errText)

	lines := strings.Split(strings.TrimSpace(out), "\n")
	require.Len(t, lines, 3)
	require.Regexp(t, `^a +[0-9a-f]{12} first\\x1b\[2J thing$`, lines[0])
	require.Contains(t, lines[1], "broken: "+dir+"/b.yaml: line 2: field verfy")

	code, out, errText = rolloutd(
		t.Context(),
		nil,
		"tasks",
		"ls",
		dir,
		"--task",
		"[ac]",
		"--shuffle",
		"3",
		"--shard",
		"0/2",
		"--json",
	)
	require.Zero(t, code, errText)

	var line struct{ Name, Digest string }
	require.NoError(t, json.Unmarshal([]byte(out), &line))
	require.Contains(t, []string{"a", "c"}, line.Name)
	require.Len(t, line.Digest, 64)

	for _, args := range [][]string{{"--shard", "2/2"}, {"--shard", "x"}, {"--shuffle", "-1"}, {"--task", "z*"}} {
		code, _, _ = rolloutd(t.Context(), nil, append([]string{"tasks", "ls", dir}, args...)...)
		require.Equal(t, 1, code, args)
	}
}

func TestTasksCheckNamesBrokenTasks(t *testing.T) {
	t.Parallel()
	dir := taskFolder(t, map[string]string{
		"a.yaml": "instruction: x\nverify: ['true']\n",
		"b.yaml": "instruction: x\nlimits: {turn: 5}\n",
		"c.yaml": "instruction: ''\n",
	})
	code, out, errText := rolloutd(t.Context(), nil, "tasks", "check", dir)
	require.Equal(t, 1, code, errText)
	require.Contains(t, out, dir+"/b.yaml: limits.turn: unknown argument")
	require.Contains(t, out, dir+"/c.yaml: line 1: instruction: must not be empty")
	require.Contains(t, out, "tasks: 3, problems: 2")
	code, out, errText = rolloutd(t.Context(), nil, "tasks", "check", dir, "--task", "a")
	require.Zero(t, code, errText)
	require.Equal(t, "tasks: 1, problems: 0\n", out)
	code, _, errText = rolloutd(t.Context(), nil, "tasks", "check", "../../examples")
	require.Zero(t, code, errText)
}

// The failure of a build says nothing of the server's data folder, which is named where a build begins.
func TestTasksBuildFails(t *testing.T) {
	t.Parallel()

	data := t.TempDir()
	dir := taskFolder(t, map[string]string{
		"task.toml": "", "instruction.md": "x", "tests/test.sh": "true\n", "environment/Dockerfile": "FROM scratch\nNOTHING x\n",
	})

	code, out, errText := rolloutd(t.Context(), map[string]string{"ROLLOUTD_DATA": data}, "tasks", "build", dir)
	require.Equal(t, 1, code, errText)
	require.Contains(t, out, "broken")
	require.NotContains(t, out, "ROLLOUTD_DATA")
	require.Contains(t, errText, "/environment for the data folder "+data+" (once; at most 10m0s)\n")
}

// An image that this host has is built again where the daemon of the backend docker lacks it.
func TestTasksBuildForTheDockerDaemon(t *testing.T) {
	data, programs := t.TempDir(), t.TempDir()
	dir := taskFolder(t, map[string]string{
		"task.toml": "", "instruction.md": "x", "tests/test.sh": "true\n", "environment/Dockerfile": "FROM scratch\n",
	})

	set, err := taskset.Open(dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, set.Close()) })

	task, err := set.Task(0)
	require.NoError(t, err)

	cfg := config.Defaults()
	cfg.Data = data

	images, err := hostimages.Open(cfg, slog.New(slog.DiscardHandler))
	require.NoError(t, err)

	_, err = images.Import(t.Context(), t.TempDir(), task.Builds()[0].Image)
	require.NoError(t, err)

	file := filepath.Join(t.TempDir(), "config.yaml")
	require.NoError(t, os.WriteFile(file, []byte("sandbox: {backends: {docker: {}}, docker: {host: 'unix:///d', image: 'a:1'}}\n"), 0o600))

	for answer, want := range map[string]string{"echo 1a2b": "images built: 0, problems: 0", "true": "build with docker"} {
		require.NoError(t, os.WriteFile(filepath.Join(programs, "docker"),
			[]byte("#!/bin/sh\ncase \"$DOCKER_HOST $1\" in 'unix:///d images') "+answer+";; *version) ;; *) exit 1;; esac\n"), 0o700))
		t.Setenv("PATH", programs+":/usr/bin:/bin")

		_, out, errText := rolloutd(t.Context(), map[string]string{
			"ROLLOUTD_DATA": data, "ROLLOUTD_SANDBOXD": filepath.Join(programs, "docker"),
		}, "tasks", "build", dir, "--config", file)
		require.Contains(t, out, want, errText)
	}
}

// The agents of a task file are those of the server.
func TestTasksCheckKnowsEveryAgent(t *testing.T) {
	t.Parallel()

	agents, err := daemon.Agents(config.Defaults(), slog.New(slog.DiscardHandler))
	require.NoError(t, err)

	files := map[string]string{}
	for _, name := range agents.Names() {
		files[name+".yaml"] = "instruction: x\nverify: ['true']\nsolution: ['true']\nagent: " + name + "\n"
	}

	code, out, errText := rolloutd(t.Context(), nil, "tasks", "check", taskFolder(t, files))
	require.Zero(t, code, out+errText)
}

// serveTrials starts a server whose rollouts end at once with the reward of the task and agent; with -live after
// them, in live grading, with -speed, by that reward, and with -again, from the second rollout on. A reward of 2 stands for none.
func serveTrials(t *testing.T, rewards map[string]float64) string {
	t.Helper()

	var started sync.Map

	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/events") {
			writeDone(w)
			return
		}

		var req struct {
			Params struct {
				Name      string
				Arguments map[string]any
			}
		}
		// an empty name has no text
		_ = json.NewDecoder(r.Body).Decode(&req)

		id, _ := req.Params.Arguments["rollout_id"].(string)
		if req.Params.Name == "start_rollout" {
			agent, _ := req.Params.Arguments["agent"].(string)
			id = req.Params.Arguments["task_id"].(string) + "-" + agent

			verifier, _ := req.Params.Arguments["verifier"].(map[string]any)

			grade, _ := verifier["grade"].(string)
			key, _ := req.Params.Arguments["reward_key"].(string)

			network := ""
			if req.Params.Arguments["allow_network"] == true {
				network = "network"
			}

			for _, by := range []string{grade, key, network} {
				if _, ok := rewards[id+"-"+by]; ok {
					id += "-" + by
				}
			}

			_, before := started.LoadOrStore(id, true)
			if _, ok := rewards[id+"-again"]; ok && before {
				id += "-again"
			}
		}

		answer := map[string]any{
			"rollout_id": id,
			"status":     "done",
			"phase":      "done",
			"outcome":    "completed",
			"reward":     rewards[id],
		}
		if rewards[id] < 1 {
			answer["grading"] = map[string]any{"status": "graded", "unseen": []string{"/etc/app", "/usr/bin"}, "notes": []string{"a\x1b note"}}
			answer["verify_results"] = []map[string]any{
				{"cmd": "true", "exit_code": 0}, {"cmd": "grep 4 out", "exit_code": 2, "stderr": "grep: out\nis gone\n"},
			}
		}

		if rewards[id] == 2 {
			answer["outcome"], answer["reward"], answer["error"] = "setup_failed", nil, "no such command"
		}

		text, _ := json.Marshal(answer)
		_ = json.NewEncoder(w).Encode(map[string]any{
			"jsonrpc": "2.0",
			"id":      1,
			"result":  map[string]any{"content": []any{map[string]any{"type": "text", "text": string(text)}}},
		})
	}))
	t.Cleanup(srv.Close)

	return srv.URL
}

func TestTasksCheckRunsSolutions(t *testing.T) {
	t.Parallel()

	task := func(extra string) string { return "instruction: x\nverify: ['true']\n" + extra }
	dir := taskFolder(t, map[string]string{
		"good.yaml":     task("solution: [a]\n"),
		"unsolved.yaml": task("solution: [a]\n"),
		"free.yaml":     task("solution: [a]\n"),
		"without.yaml":  task(""),
		"fails.yaml":    task("solution: [a]\n"),
		"wide.yaml":     task("solution: [a]\nreward_range: [0, 3]\n"),
		"any.yaml":      task("solution: [a]\nreward_range: [-1e18, 1e18]\n"),
	})
	url := serveTrials(t, map[string]float64{
		"good-oracle":     1,
		"unsolved-oracle": 0.5,
		"free-oracle":     1,
		"free-nop":        1,
		"fails-oracle":    2,
		"fails-nop":       0,
		"wide-oracle":     1,
		"any-oracle":      1,
	})
	code, out, errText := rolloutd(
		t.Context(),
		map[string]string{"ROLLOUTD_SERVER": url},
		"tasks",
		"check",
		dir,
		"--oracle",
		"--nop",
		"--concurrency",
		"2",
	)
	require.Equal(t, 1, code, errText)

	for _, want := range []string{
		"unsolved.yaml: oracle: the solution earns 0.5 of 1 (rollout unsolved-oracle)\n" +
			"        grep 4 out (exit code 2):\n        grep: out\n        is gone\n" +
			"        the verifier did not see changes in /etc/app, /usr/bin\n        a\\x1b note\n",
		"without.yaml: oracle: the task has no solution", "fails.yaml: oracle: setup_failed: no such command",
		"wide.yaml: oracle: the solution earns 1 of 3", "free.yaml: nop: doing nothing earns 1 of 1", "tasks: 7, problems: 5",
	} {
		require.Contains(t, out, want)
	}

	require.NotContains(t, out, "good.yaml")
	require.NotContains(t, out, "any.yaml", "of any number 1 is that of a solution")

	// what was found is beside the set, and a producer takes proved tasks alone where that is required
	require.FileExists(t, filepath.Join(dir, "rolloutd-checks.json"))
	p, env := serveProducers(t, "completed")
	produce := []string{"produce", "--tasks", dir, "--group-size", "4", "--sink", "s", "--endpoint", "scripted"}

	code, _, errText = rolloutd(t.Context(), env, produce...)
	require.Zero(t, code, errText)
	require.Len(t, p.asked["POST /producers"]["tasks"], 7)
	require.Contains(t, errText, "not proved: 5 tasks; `rolloutd tasks check "+dir+" --oracle --nop` proves tasks\n")

	code, _, errText = rolloutd(t.Context(), env, append(produce, "--require-checked")...)
	require.Equal(t, 1, code)
	require.Contains(t, errText, "fails.yaml: not proved: oracle: setup_failed: no such command")

	code, _, errText = rolloutd(t.Context(), env, append(produce, "--require-checked", "--skip-broken")...)
	require.Zero(t, code, errText)
	require.Len(t, p.asked["POST /producers"]["tasks"], 2)

	// a damaged file stops only those who require it
	file := filepath.Join(dir, "rolloutd-checks.json")
	kept, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, []byte("["), 0o600))

	code, _, errText = rolloutd(t.Context(), env, produce...)
	require.Zero(t, code, errText)
	require.Contains(t, errText, "not proved: 7 tasks")

	code, _, errText = rolloutd(t.Context(), env, append(produce, "--require-checked")...)
	require.Equal(t, 1, code)
	require.Contains(t, errText, "delete the file and check the set again")
	require.NoError(t, os.WriteFile(file, kept, 0o600))

	// a task that has changed is unchecked
	require.NoError(t, os.WriteFile(filepath.Join(dir, "good.yaml"), []byte(task("solution: [b]\n")), 0o600))
	code, _, errText = rolloutd(t.Context(), env, append(produce, "--task", "good", "--require-checked")...)
	require.Equal(t, 1, code)
	require.Contains(t, errText, "good.yaml: not proved: `rolloutd tasks check --oracle --nop` has not checked it as it is now")
}

// A trial whose second rollout earns another reward is flaky, whatever the first earned.
func TestTasksCheckFindsFlakyTasks(t *testing.T) {
	t.Parallel()

	const task = "instruction: x\nverify: ['true']\nsolution: [a]\n"

	dir := taskFolder(t, map[string]string{"late.yaml": task, "lucky.yaml": task, "same.yaml": task})
	url := serveTrials(t, map[string]float64{
		"late-oracle": 0, "late-oracle-again": 1,
		"lucky-oracle": 1, "lucky-nop": 0, "lucky-nop-again": 0.5,
		"same-oracle": 1, "same-nop": 0.25,
	})
	code, out, errText := rolloutd(t.Context(), nil, "tasks", "check", dir, "--oracle", "--nop", "--server", url)
	require.Equal(t, 1, code, errText)
	require.Contains(t, out, "late.yaml: flaky: oracle earns 0 (rollout late-oracle), then 1 (rollout late-oracle-again)\n"+
		"        grep 4 out (exit code 2):\n")
	require.Contains(t, out, "lucky.yaml: flaky: nop earns 0 (rollout lucky-nop), then 0.5 (rollout lucky-nop-again)\n")
	require.NotContains(t, out, "same.yaml")
	require.Contains(t, out, "tasks: 3, problems: 2")
}

// A task that only live or only shared grading can grade is proved by that, and for those who grade it so.
func TestTasksCheckFindsTheGrading(t *testing.T) {
	t.Parallel()

	for _, grade := range []string{"live", "shared"} {
		t.Run(grade, func(t *testing.T) {
			t.Parallel()
			checkGrading(t, grade)
		})
	}
}

// produceChecked are the arguments of a producer that takes proved tasks alone.
func produceChecked(dir string) []string {
	return []string{
		"produce", "--tasks", dir, "--group-size", "4", "--sink", "s", "--endpoint", "scripted", "--require-checked",
	}
}

func checkGrading(t *testing.T, grade string) {
	t.Helper()

	dir := taskFolder(t, map[string]string{"web.yaml": "instruction: x\nverify: ['true']\nsolution: [a]\n"})
	url := serveTrials(t, map[string]float64{"web-oracle": 0, "web-oracle-" + grade: 1, "web-nop": 0})

	check := []string{"tasks", "check", dir, "--oracle", "--nop", "--server", url}
	code, out, errText := rolloutd(t.Context(), nil, check...)
	require.Equal(t, 1, code, errText)
	require.Contains(t, out, "web.yaml: the oracle passes only with verifier.grade: "+grade+" (")

	code, _, errText = rolloutd(t.Context(), nil, append(check, "--grade", "living")...)
	require.Equal(t, 1, code)
	require.Contains(t, errText, `--grade: must be fresh, live, shared, got "living"`)

	code, out, errText = rolloutd(t.Context(), nil, append(check, "--grade", grade)...)
	require.Zero(t, code, out+errText)

	p, env := serveProducers(t, "completed")
	produce := produceChecked(dir)

	code, _, errText = rolloutd(t.Context(), env, produce...)
	require.Equal(t, 1, code)
	require.Contains(t, errText, "web.yaml: not proved: `rolloutd tasks check --oracle --nop` has checked it with --grade "+grade+", not fresh")

	code, _, errText = rolloutd(t.Context(), env, append(produce, "--grade", grade)...)
	require.Zero(t, code, errText)
	require.Len(t, p.asked["POST /producers"]["tasks"], 1)
}

// In a set that is graded shared, tasks that cannot be graded so are checked and produced as they are.
func TestTasksCheckGradesAMixedSet(t *testing.T) {
	t.Parallel()

	const step = "instruction: x, verify: ['true'], solution: [a]"

	dir := taskFolder(t, map[string]string{
		"image.yaml": "instruction: x\ntest_script: a\nsolution: [a]\nsandbox: {image: 'a:1'}\nverifier: {image: 'b:1', artifacts: [/app]}\n",
		"plain.yaml": "instruction: x\nverify: ['true']\nsolution: [a]\n",
		"steps.yaml": "steps: [{name: a, " + step + "}, {name: b, " + step + "}]\n",
	})
	url := serveTrials(t, map[string]float64{
		"image-oracle": 1, "image-nop": 0, "plain-oracle-shared": 1, "plain-nop": 0, "steps-oracle": 1, "steps-nop": 0,
	})

	code, out, errText := rolloutd(t.Context(), nil, "tasks", "check", dir, "--oracle", "--nop", "--server", url, "--grade", "shared")
	require.Zero(t, code, out+errText)
	require.Contains(t, out, "image.yaml: --grade shared has no effect on a task with steps or verifier.image: it is graded fresh\n")
	require.Contains(t, out, "steps.yaml: --grade shared has no effect on a task with steps or verifier.image: it is graded fresh\n")
	require.NotContains(t, out, "plain.yaml")

	p, env := serveProducers(t, "completed")

	code, _, errText = rolloutd(t.Context(), env, append(produceChecked(dir), "--grade", "shared")...)
	require.Zero(t, code, errText)
	require.Len(t, p.asked["POST /producers"]["tasks"], 3)
}

// A task that was proved by another of its rewards, or with a network, is not proved.
func TestTasksCheckWithOtherArguments(t *testing.T) {
	t.Parallel()

	for kind, tc := range map[string]struct {
		flags []string
		says  string

		// of a producer's task
		argument string
		value    any
	}{
		"speed":   {[]string{"--reward-key", "speed"}, "has checked it with --reward-key \"speed\", not \"\"", "reward_key", "speed"},
		"network": {[]string{"--allow-network"}, "has checked it with --allow-network", "allow_network", true},
	} {
		dir := taskFolder(t, map[string]string{"fast.yaml": "instruction: x\ntest_script: a\nsolution: [a]\n"})
		url := serveTrials(t, map[string]float64{"fast-oracle-" + kind: 1, "fast-nop-" + kind: 0})
		check := append([]string{"tasks", "check", dir, "--oracle", "--nop", "--server", url}, tc.flags...)

		code, out, errText := rolloutd(t.Context(), nil, check...)
		require.Zero(t, code, out+errText)

		p, env := serveProducers(t, "completed")
		produce := produceChecked(dir)

		code, _, errText = rolloutd(t.Context(), env, produce...)
		require.Equal(t, 1, code)
		require.Contains(t, errText, tc.says)

		code, _, errText = rolloutd(t.Context(), env, append(produce, tc.flags...)...)
		require.Zero(t, code, errText)

		tasks, _ := p.asked["POST /producers"]["tasks"].([]any)
		require.Len(t, tasks, 1)
		require.Equal(t, tc.value, tasks[0].(map[string]any)[tc.argument])
	}
}

func TestRunASet(t *testing.T) {
	t.Parallel()
	dir := taskFolder(t, map[string]string{
		"a.yaml": "instruction: x\n",
		"b.yaml": "instruction: x\n",
		"c.yaml": "instruction: x\n",
	})
	env := map[string]string{"ROLLOUTD_SERVER": serveTrials(t, map[string]float64{
		"a-nop": 1,
		"b-nop": 0.5,
		"c-nop": 2,
	})}
	code, out, errText := rolloutd(t.Context(), env, "run", dir, "--task", "a,b", "--agent", "nop")
	require.Zero(t, code, errText)
	require.Regexp(t, `total +2 of 2 +0.75 ± 0.25 +0.5 +completed 2 `, out)
	require.Contains(t, errText, "completed, reward 0.5, rollout b-nop")
	code, out, _ = rolloutd(t.Context(), env, "run", dir, "--agent", "nop", "--concurrency", "1")
	require.Equal(t, 30, code)
	require.Regexp(t, `total +2 of 3 .* completed 2, setup_failed 1 `, out)
	code, out, errText = rolloutd(t.Context(), env, "run", dir+"/a.yaml", dir+"/b.yaml", "--agent", "nop")
	require.Zero(t, code, errText)
	require.Regexp(t, `total +2 of 2 .* completed 2 +0 +0 +-`, out)

	for least, message := range map[string]string{
		"0.75": "", "0.8": "--min-reward: the mean reward is 0.75, below 0.8",
	} {
		code, _, errText = rolloutd(t.Context(), env, "run", dir, "--task", "a,b", "--agent", "nop", "--min-reward", least)
		require.Equal(t, message == "", code == 0, least)
		require.Contains(t, errText, message)
	}

	code, _, errText = rolloutd(t.Context(), env, "run", dir, "--agent", "nop", "--min-reward", "-1")
	require.Equal(t, 1, code)
	require.Contains(t, errText, "--min-reward: 1 of 3 tasks have no reward")

	// a task without a result is JSON, too
	code, out, _ = rolloutd(t.Context(), env, "run", dir, "--task", "a", "--api-key-env", "UNSET", "--json")
	require.Equal(t, 1, code)
	require.JSONEq(t, `{"task":"a","error":{"kind":"Internal","message":"--api-key-env: UNSET is not set"}}`, out)

	for _, args := range [][]string{{dir, "--rollout-id", "x"}, {dir + "/a.yaml", "--limit", "1"}, {dir + "/a.yaml", "--min-reward", "1"}, {dir, "--concurrency", "0"}} {
		code, _, errText = rolloutd(t.Context(), env, append([]string{"run"}, args...)...)
		require.Equal(t, 1, code)
		require.Contains(t, errText, "--")
	}
}
