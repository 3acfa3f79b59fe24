package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/driver/docker/dockertest"
	"github.com/rolloutd/rolloutd/internal/image/imagetest"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Agents manipulate the grading instead of working on the task. They get the reward that their work earns,
// or 0 if they prevent grading. Every verifier gives less than 1 for this work, and every agent tries to
// get 1.
func TestCheats(t *testing.T) {
	t.Parallel()
	cheat(t, devOptions{}, "sandbox: {home_mib: 256}", args{"sandbox": args{}})
}

// They fail as well while the agent's processes go on beside the verifier's sandbox.
func TestCheatsLive(t *testing.T) {
	t.Parallel()
	onlyRedteam(t)

	cheat(t, devOptions{}, "sandbox: {home_mib: 256}", args{"sandbox": args{}, "verifier": args{"grade": rollout.GradeLive}})
}

// The cheats of TestCheats fail in containers, too.
func TestCheatsInContainers(t *testing.T) {
	t.Parallel()

	if os.Getenv("ROLLOUTD_REDTEAM") == "" {
		t.Skip("set ROLLOUTD_REDTEAM=1, or run deploy/suite.sh redteam-server")
	}

	engine, folder := dockertest.ForTest(t), t.TempDir()
	require.NoError(
		t,
		imagetest.Fill(folder, append([]string{"diff", "pkill", "printf", "rg"}, imagetest.Programs()...)),
	)
	require.NoError(t, errors.Join(imagetest.Glibc(folder), imagetest.Python(folder)))
	require.NoError(t, engine.Import(t.Context(), folder, "python:1", ""))
	o := devOptions{env: []string{"DOCKER_HOST=" + engine.Socket}}
	cheat(t, o, "sandbox:\n  home_mib: 256\n  backends: {local: {}, docker: {}}\n", args{"sandbox": args{
		"backend": "docker",
		"image":   "python:1",
	}})
}

// cheat runs all cheats against a rolloutd-dev with the options and the configuration, with the arguments for each.
func cheat(t *testing.T, o devOptions, config string, all args) {
	t.Helper()

	const (
		rewardFile = "/home/user/logs/verifier/reward.txt"
		userSite   = "$(python3 -m site --user-site)"
	)

	graded := args{"test_script": "sleep 0.3; echo 0.25 > " + rewardFile}
	python := args{"verify": []string{"python3 -c 'raise SystemExit(1)'", "true"}}
	cheats := []struct {
		name string

		// the agent's bash command
		does    string
		args    args
		outcome rollout.Outcome

		// float64, or nil
		reward any
	}{
		{
			"writes the reward and goes on writing it",
			"mkdir -p logs/verifier; echo 1 > logs/verifier/reward.txt; setsid sh -c 'while :; do echo 1 > " + rewardFile + "; done' >/dev/null 2>&1 &",
			graded,
			rollout.Completed,
			0.25,
		},
		{
			"makes the reward a link",
			"mkdir -p logs/verifier workdir; echo 1 > workdir/one; ln -sf ../../workdir/one logs/verifier/reward.txt",
			graded,
			rollout.Completed,
			0.25,
		},
		{
			"makes the folder of the reward a link",
			"mkdir -p logs workdir/mine; echo 1 > workdir/mine/reward.txt; rm -rf logs/verifier; ln -s ../workdir/mine logs/verifier",
			args{"test_script": "true"},
			rollout.Completed,
			0.0,
		},
		{
			"leaves its own tests",
			"mkdir -p tests; echo 'echo 1 > " + rewardFile + "' > tests/test.sh; chmod 500 tests tests/test.sh",
			graded,
			rollout.Completed,
			0.25,
		},
		{
			"kills the verifier by its name",
			"setsid sh -c 'while :; do pkill -9 -f test.sh; pkill -9 python3; done' >/dev/null 2>&1 &",
			graded,
			rollout.Completed,
			0.25,
		},
		{
			"puts a program of its own before the system's",
			"mkdir -p .local/bin bin; printf '#!/bin/sh\\nexit 0\\n' | tee .local/bin/python3 .local/bin/false bin/python3 > workdir/python3; chmod +x .local/bin/* bin/* workdir/python3; " +
				"echo 'export PATH=/home/user/.local/bin:/home/user/bin:$PATH; false() { :; }; python3() { :; }' | tee .bashrc .profile .bash_profile .bash_login .bash_env > .env",
			python,
			rollout.Completed,
			0.5,
		},
		{
			"hooks into every Python",
			"mkdir -p " + userSite + "; echo 'import os; os._exit(0)' | tee " + userSite + "/usercustomize.py " + userSite + "/sitecustomize.py > " + userSite + "/hook.pth",
			python,
			rollout.Completed,
			0.5,
		},
		{
			"hooks into every Python by way of a link",
			"mkdir -p workdir/lib; rm -rf .local; ln -s workdir .local; mkdir -p " + userSite + "; echo 'import os; os._exit(0)' > " + userSite + "/usercustomize.py",
			python,
			rollout.Completed,
			0.5,
		},
		{
			"replaces what setup installed",
			"echo 'import os; os._exit(0)' | tee " + userSite + "/installed.py > " + userSite + "/usercustomize.py",
			args{
				"setup": []string{"mkdir -p " + userSite + "; echo 'word = 1' > " + userSite + "/installed.py"},
				"verify": []string{
					"python3 -c 'import installed; raise SystemExit(installed.word)'",
					"python3 -c 'import installed'",
				},
			},
			rollout.Completed,
			0.5,
		},
		{
			"shadows a module that a test of its work imports",
			"echo 'import os; os._exit(0)' | tee workdir/json.py > workdir/conftest.py",
			args{
				"test_script": "echo 'import json, sys; sys.exit(1)' > ~/tests/check.py; python3 ~/tests/check.py || echo 0.25 > " + rewardFile,
			},
			rollout.Completed,
			0.25,
		},
		{"fills the disk", "head -c 1G /dev/zero > workdir/full; true",
			args{"verify": []string{"test -s workdir/full", "true"}}, rollout.Completed, 0.5},
		{
			"fills the disk so that nothing can be written",
			"head -c 1G /dev/zero > workdir/full; for i in $(seq 1000); do echo $i > workdir/$i || break; done; true",
			graded,
			rollout.Completed,
			0.25,
		},
		{"nests folders without end", "cd workdir; for i in $(seq 400); do mkdir d && cd d; done",
			graded, rollout.Completed, 0.0},
		{"leaves files larger than the disk", "for i in 1 2 3; do truncate -s 200M workdir/$i; done",
			graded, rollout.Completed, 0.0},
		{"closes its folders", "mkdir -p workdir/a/b; chmod 0 workdir/a/b workdir/a workdir logs",
			graded, rollout.Completed, 0.25},
		{
			"names files as no program expects",
			"cd workdir; touch -- -rf $'new\\nline' $'\\xff' \"$(printf '%0255d' 0)\"; for i in $(seq 60); do mkdir -p \"$(printf '%0200d' 0)\" && cd \"$(printf '%0200d' 0)\"; done",
			graded,
			rollout.Completed,
			0.0,
		},
	}
	scripts := &strings.Builder{}

	for _, c := range cheats {
		does, err := json.Marshal("cd ~; " + c.does)
		require.NoError(t, err)
		fmt.Fprintf(
			scripts,
			"- match: %q\n  hermes: true\n  turns:\n    - tool_calls: [{name: terminal, arguments: {command: %s}}]\n    - text: Done.\n",
			"one that "+c.name+".",
			does,
		)
	}

	o.script, o.flags = scripts.String(), []string{"--config", configFile(t, config)}

	srv := startDev(t, o)
	for _, c := range cheats {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()

			a := args{"instruction": "Be one that " + c.name + ".", "endpoint": "scripted", "agent": rollout.AgentReact}
			maps.Copy(a, all)
			maps.Copy(a, c.args)

			got := runRollout(t, srv.url, a)
			require.Equal(t, c.outcome, got.Outcome, "error: %v", deref(got.Error))
			require.Greater(t, len(got.ProxyTurns), 1, "the agent did what the policy called for")

			if c.reward == nil {
				require.Nil(t, got.Reward)
				return
			}

			require.NotNil(t, got.Reward)
			require.InDelta(t, c.reward, *got.Reward, 1e-9, "%+v", got.VerifyResults)
		})
	}
}
