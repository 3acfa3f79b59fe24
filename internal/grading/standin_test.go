package grading_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/grading"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/store"
)

// A script that writes 0 because the image lacks its test runner gives no reward. A runner that is missing but decides
// nothing, or that the work may have brought, leaves the 0.
func TestScriptLacksItsRunner(t *testing.T) {
	t.Parallel()

	a := newAttackedOf(t, 256)
	a.agent(t, "work", cheat{agent: "echo bad > workdir/bad; echo 'def f(): return 1' > workdir/solution.py"})

	const (
		decides = "; if [ $? = 0 ]; then echo 1 > $VERIFIER_DIR/reward.txt; else echo 0 > $VERIFIER_DIR/reward.txt; fi"
		named   = ` && echo '{"reward": 1}' > $VERIFIER_DIR/reward.json || echo '{"reward": 0}' > $VERIFIER_DIR/reward.json`
		works   = "; ! test -e ~/workdir/bad" + decides
	)

	for n, c := range []struct {
		name, script string

		// "": the 0 is the submission's
		lacks string
	}{
		{"program", "set -u; no-such-installer | sh; . $HOME/.local/bin/env; uvx -p 3.13 pytest $TESTS_DIR/a.py" + decides, "uvx is not in the image"},
		{"in a file", "bats a > $VERIFIER_DIR/log 2>&1" + named, "bats is not in the image"},
		{"in a function", "run() { nox -s a; }; PATH=$HOME/.local/bin:$PATH; run" + named, "nox is not in the image"},
		{"module", "python3 -B -m behave $TESTS_DIR" + decides, "python3 -m behave is not in the image"},
		{"by a path", "/usr/bin/bats $TESTS_DIR ~/workdir/bad" + decides, "/usr/bin/bats is not in the image"},
		{"interpreter of a test", "echo 0 > $VERIFIER_DIR/reward.txt; \"$TESTS_DIR/run.rb\" ~/workdir/bad" + named, "no-such-ruby is not in the image, which /verifier/tests/run.rb needs"},
		{"interpreter of a file of the work", "cp $TESTS_DIR/run.rb ~/workdir; ~/workdir/run.rb" + decides, ""},
		{"decides nothing", "uv --version; no-such-installer" + works, ""},
		{"module decides nothing", "python3 -m behave || true" + works, ""},
		{"in an environment of the work", ". ~/workdir/venv/bin/activate; tox" + decides, ""},
		{"in a folder of the work", "PATH=~/workdir/bin:$PATH; tox" + decides, ""},
		{"of the work", "my-tool --version" + decides, ""},
		{"module of the work", "python3 -m my_tool" + decides, ""},
	} {
		target := rollout.Target{RolloutID: "work", Attempt: n + 1}
		verifier := rollout.Verifier{Script: c.script, Files: map[string]string{"run.rb": "#!/usr/bin/env no-such-ruby\n"}}

		if n%2 == 0 {
			// as those of Harbor
			verifier.RewardRange = rollout.AnyReward()
		}

		record, err := a.grader.Grade(t.Context(), grading.Job{Target: target, Timeout: 10 * time.Minute, Verifier: verifier})
		require.NoError(t, err, c.name)
		require.NoError(t, a.backend.Destroy(t.Context(), target.VerifierID()))

		if c.lacks == "" {
			require.NotNil(t, record.Reward, "%s: %+v", c.name, record)
			require.Zero(t, *record.Reward, c.name)

			continue
		}

		require.Nil(t, record.Reward, "%s: %+v", c.name, record)
		require.Contains(t, record.Grading.Why, "the test script cannot work without the agent's work either: "+c.lacks, c.name)
	}
}

// A runner that is there and cannot run for a reason that no work can change gives no reward. One that cannot run because
// the work is missing or wrong leaves the 0, whatever the work says.
func TestRunnerCannotRun(t *testing.T) {
	t.Parallel()

	packages := pytestPackages(t)
	if packages == nil {
		t.Skip("no pytest on this machine")
	}

	a := newAttackedOf(t, 256)
	a.agent(t, "work", cheat{agent: `cd workdir; echo 'raise ModuleNotFoundError("No module named no_such_module")' > solution.py; ` +
		`echo 'import sys; sys.exit("pytest: error: unrecognized arguments: --ctrf")' > says.py; echo no-such-distribution > needs.txt; ` +
		`printf '[pytest]\naddopts = --no-such-option\n' > pytest.ini`})

	files := map[string]string{
		"test_ok.py":       "def test(): pass\n",
		"test_work.py":     "def test(): open('/home/user/workdir/right').read()\n",
		"test_module.py":   "import no_such_module\ndef test(): pass\n",
		"test_own.py":      "import site; site.addsitedir('/home/user/workdir')\nimport answer\ndef test(): assert answer.f()\n",
		"test_optional.py": "try: import no_such_module\nexcept ImportError: pass\nimport os\ndef test(): assert os.path.exists('/home/user/workdir/right')\n",
		"check.py":         "import no_such_module\n",
		"check_writes.py":  "open('/home/user/logs/verifier/reward.txt', 'w').write('0')\nimport no_such_module\n",
		"check_work.py":    "import subprocess, sys\nsys.exit(subprocess.call(['run-as-agent', 'python3', 'says.py']))\n",
		"check_says.py":    "import sys\nsys.exit(\"ModuleNotFoundError: No module named 'os'\")\n",
		"unit/test_u.py":   "import no_such_module, unittest\n",
		"uvx":              "#!/bin/sh\necho \"$SAYS\" >&2\nexit 2\n",
		"project/Makefile": "all:\n\ttest -e /home/user/workdir/right\n",
	}

	const (
		decides = "; if [ $? = 0 ]; then echo 1 > $VERIFIER_DIR/reward.txt; else echo 0 > $VERIFIER_DIR/reward.txt; fi"
		uvx     = "mkdir -p ~/.local/bin; cp $TESTS_DIR/uvx ~/.local/bin; PATH=$HOME/.local/bin:$PATH; "
	)

	for n, c := range []struct {
		name, script string

		// of the reason that there is no reward; "": the 0 is the submission's
		why string
	}{
		{"an option of a plugin", "python3 -m pytest --ctrf $VERIFIER_DIR/ctrf.json $TESTS_DIR/test_ok.py -rA", "python3: "},
		{"with a time limit", "timeout -k 5 60 python3 -m pytest -n4 $TESTS_DIR/test_ok.py", "unrecognized arguments: -n4"},
		{"with errors that end the script", "set -euo pipefail; echo 0 > $VERIFIER_DIR/reward.txt; python3 -m pytest --ctrf x $TESTS_DIR/test_ok.py; true", "unrecognized arguments: --ctrf"},
		{"through a pipe", "set -o pipefail; python3 -m pytest --ctrf x $TESTS_DIR/test_ok.py 2>&1 | tee $VERIFIER_DIR/out > /dev/null", "unrecognized arguments: --ctrf"},
		{"a module of the tests", "python3 -m pytest -q $TESTS_DIR/test_module.py", "python3: No module named 'no_such_module'"},
		{"a module of a check", "python3 $TESTS_DIR/check.py", "No module named 'no_such_module'"},
		{"a module of a check of a file", "echo 0 > $VERIFIER_DIR/reward.txt; timeout 60 python3 $TESTS_DIR/check.py ~/workdir/right && echo 1 > $VERIFIER_DIR/reward.txt; exit 0", "No module named 'no_such_module'"},
		{"a module of a check that writes the reward", "python3 $TESTS_DIR/check_writes.py ~/workdir/right; exit 0", "No module named 'no_such_module'"},
		{"a module of a check, beside another", "python3 $TESTS_DIR/check.py ~/workdir/right; test -e ~/workdir/right", ""},
		{"a module of a unittest", "python3 -m unittest discover -s $TESTS_DIR/unit", "No module named 'no_such_module'"},
		{"a target of the tests", "cd $TESTS_DIR/project && make test", "No rule to make target 'test'"},
		{"an index that it cannot reach", "PIP_RETRIES=0 pip install --break-system-packages no-such-distribution > $VERIFIER_DIR/log 2>&1 && python3 -m pytest -q $TESTS_DIR/test_ok.py", "pip: "},

		{"an index that uvx cannot reach", uvx + "SAYS='error: Failed to fetch: pytest' uvx --with pytest pytest $TESTS_DIR/test_ok.py -rA", "uvx: error: Failed to fetch: pytest"},
		{"a Python that uvx cannot use", uvx + "SAYS='error: Querying Python at `/opt/rolloutd/sandboxd` failed' uvx pytest $TESTS_DIR/test_ok.py > $VERIFIER_DIR/log 2>&1", "uvx: error: Querying Python at `/opt/rolloutd/sandboxd` failed"},

		{"an installed module, beside files of the work", "cp ~/workdir/right $TESTS_DIR; pip install 'No-such_module[x]>=2' 2> /dev/null; python3 -m pytest -q $TESTS_DIR/test_module.py", "No module named 'no_such_module'"},
		{"tests that leave a score", "bats $TESTS_DIR; test -f $TESTS_DIR/score.txt", "bats is not in the image"},

		{"tests beside a file of the work", "bats $TESTS_DIR; test -f ~/workdir/score.txt", ""},
		{"tests that others follow", "bats $TESTS_DIR; python3 $TESTS_DIR/check_says.py; test -f $TESTS_DIR/score.txt", ""},
		{"a module that it copies", "cp ~/workdir/no_such_module.py $TESTS_DIR; python3 -m pytest -q $TESTS_DIR/test_module.py", ""},
		{"a module that it writes", "test -e ~/workdir/m.py && cat ~/workdir/m.py > $TESTS_DIR/no_such_module.py; python3 -m pytest -q $TESTS_DIR/test_module.py", ""},
		{"options of a file that it copies", "cp ~/workdir/conftest.py $TESTS_DIR; python3 -m pytest --mine $TESTS_DIR/test_ok.py", ""},
		{"packages of the work", "PIP_RETRIES=0 pip install --break-system-packages --find-links /home/user/workdir/dist no-such && python3 -m pytest -q $TESTS_DIR/test_ok.py", ""},
		{"a Python of the work", uvx + "SAYS='error: Querying Python at `/app/.venv/bin/python3` failed' uvx pytest $TESTS_DIR/test_ok.py", ""},
		{"requirements of the work", "cd ~/workdir; PIP_RETRIES=0 pip install --break-system-packages -rneeds.txt && python3 -m pytest -q $TESTS_DIR/test_ok.py", ""},
		{"other work passes", "python3 -m pytest -q $TESTS_DIR/test_work.py", ""},
		{"a module of the work", "python3 -m pytest -q $TESTS_DIR/test_own.py", ""},
		{"a module that may be missing", "python3 -m pytest -q $TESTS_DIR/test_optional.py", ""},
		{"an option that the work adds", "cd ~/workdir; python3 -m pytest -q --mine .", ""},
		{"the work says so", "python3 $TESTS_DIR/check_work.py", ""},
		{"a check says so", "python3 $TESTS_DIR/check_says.py", ""},
		{"it decides nothing", "python3 -m pytest --ctrf x $TESTS_DIR/test_ok.py; test -e ~/workdir/right", ""},
		{"a file of the work", "python3 ~/workdir/none.py", ""},
		{"a target of the work", "cd ~/workdir; make test", ""},
		{"a server of the work", "curl -sS http://localhost:9", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			target := rollout.Target{RolloutID: "work", Attempt: n + 1}
			_, err := a.store.PutBytes(t.Context(), store.AttemptKey("work", n+1, store.Packages), packages)
			require.NoError(t, err)

			record, err := a.grader.Grade(t.Context(), grading.Job{
				Target: target, Verifier: rollout.Verifier{Script: c.script + decides, Files: files}, Timeout: 10 * time.Minute,
			})
			require.NoError(t, err)
			require.NoError(t, a.backend.Destroy(t.Context(), target.VerifierID()))
			require.NoError(t, a.backend.Destroy(t.Context(), target.ControlID()))

			if c.why != "" {
				require.Nil(t, record.Reward, "%+v", record)
				require.Contains(t, record.Grading.Why, c.why)

				return
			}

			require.NotNil(t, record.Reward, "%+v", record)
			require.Zero(t, *record.Reward)
		})
	}
}

// What a verifier may bring to its tests is known from its text.
func TestVerifierBringsFiles(t *testing.T) {
	t.Parallel()

	for script, want := range map[string]bool{
		"cp /app/a.py $TESTS_DIR": true, "cp /app/a.py /tests/": true, "cd /tests && cp /app/a.py .": true, "D=/tests; cp /app/a.py $D": true,
		"cat /app/a.py > /tests/a.py": true, "cat /app/a.py > \"$TESTS_DIR/a.py\"": true, "cat a >> $D/a.py": true, "cat /app/a.py | tee /tests/a.py": true, "timeout 5 cp -r /app/. \"$TESTS_DIR/app\"": true,
		"tar xf /app/a.tar -C /tests": true, "git clone /app /tests/app": true, "ln -s /app/a.py /tests/a.py": true,

		"pytest /tests | tee /logs/verifier/out": false, "pytest /tests 2>&1 | tee \"$VERIFIER_DIR/out\"": false, "cp /tmp/a /logs/verifier/a": false,
		"mkdir -p /logs/verifier; echo 1 > /logs/verifier/reward.txt": false, "rm -f /tests/score.txt; pytest /tests > /dev/null": false,
	} {
		require.Equal(t, want, grading.Brings(rollout.Verifier{Script: script}), script)
	}

	for text, want := range map[string]bool{
		"import shutil\nshutil.copytree('/app', '/tests/app')": true, "os.symlink('/app/a.py', '/tests/a.py')": true, "sys.path.insert(0, '/app')": true,
		"import subprocess, requests": false,
	} {
		require.Equal(t, want, grading.Brings(rollout.Verifier{Script: "true", Files: map[string]string{"test_a.py": text}}), text)
	}
}

// A script whose reward may come from a file of the work is known from its text.
func TestScriptNamesOnlyTests(t *testing.T) {
	t.Parallel()

	for script, want := range map[string]bool{
		"#!/bin/bash\n# looks at /app/out.txt\ncd /app\nT=/tests; S=\"${T}/score\"\nrm -f \"$S\"\npytest \"$T/test_a.py\" -v || true\n[ -f \"$S\" ] || echo 0 > /logs/verifier/reward.txt\n": true,
		"source $HOME/.local/bin/env; uvx -w pytest==8.4.1 pytest /tests/test_a.py":                                                                                                          true,

		"pytest /tests; S=$(cat /tests/score); python3 -c \"open('/logs/verifier/reward.txt', 'w').write(str($S / 100.0))\"": true,

		"python3 /tests/check.py /app/out.json; exit 0": true, "timeout 9 python3 \"$TESTS_DIR/check.py\" --out=/app/out.json || true": true,
		"python3 /tests/check.py /app/out.json; test -e /app/right": false, "python3 /app/check.py /app/out.json": false, "cat /tests/a /app/a": false,

		"pytest /tests; S=$(cat /tests/score); python3 -c \"open('/logs/verifier/reward.txt', 'w').write(str(round($S/1.0 + float(s/100), 4)))\"": true,

		"pytest /tests; test -e /app/right": false, "pytest /tests; cd /app && test -e right": false, "pytest /tests; [ -f \"right\" ]": false,
		"cd /app\npytest /tests; grep -q yes out.txt": false, "pytest /tests; ./prog": false, "pytest /tests; cat out/1.txt": false, "pytest /tests; cmp ~/a $TESTS_DIR/a": false,
		"A=/app; pytest /tests; [ -d $A ]": false, "pytest /tests; [ -f ${HOME}/a ]": false,
	} {
		require.Equal(t, want, grading.NamesOnlyTests(script), script)
	}
}

// Tests by a program that the image has in a folder of the work give no reward: as the verifier it does not run, and with the
// work it cannot read them. One that only the work may have there leaves the 0.
func TestRunnerInAFolderOfTheWork(t *testing.T) {
	t.Parallel()

	if os.Geteuid() != 0 {
		t.Skip("only a worker that is root makes agents root of an image")
	}

	images := imageOf(t, map[string]string{
		"app/venv/bin/pytest":   "#!/bin/bash\nread < \"$1\"\n",
		"app/venv/bin/activate": "PATH=/app/venv/bin:$PATH\n",
		"usr/bin/behave":        "#!/bin/bash\ntest -e /app/right\n",
		"usr/bin/uv":            "#!/bin/bash\necho 'error: Failed to query Python interpreter at `/app/venv/bin/python`' >&2\nexit 2\n",

		// of the image that stand-ins use
		"usr/bin/rm":   "#!/bin/bash\n",
		"usr/bin/tail": "#!/bin/bash\necho \"$(< \"$3\")\"\n",
	})

	const (
		files   = "echo > $TESTS_DIR/test_a.py; "
		decides = "; if [ $? = 0 ]; then echo 1 > $VERIFIER_DIR/reward.txt; else echo 0 > $VERIFIER_DIR/reward.txt; fi"
	)

	for n, c := range []struct {
		script string

		// of the reason that there is no reward; "": the 0 is the submission's
		why string
	}{
		{"/app/venv/bin/pytest $TESTS_DIR/test_a.py", "/app/venv/bin/pytest is in a folder of the work"},
		{"cd venv; timeout 60 bin/pytest $TESTS_DIR/test_a.py", "bin/pytest is in a folder of the work"},
		{". venv/bin/activate; pytest $TESTS_DIR/test_a.py", "/venv/bin/pytest is in a folder of the work"},
		{"PATH=/app/venv/bin:$PATH; pytest $TESTS_DIR", "/app/venv/bin/pytest is in a folder of the work"},
		{"uv run pytest $TESTS_DIR", "uv: error: Failed to query Python interpreter at `/app/venv/bin/python`"},

		{"/app/mine/bin/pytest $TESTS_DIR/test_a.py", ""},
		{". mine/bin/activate; pytest $TESTS_DIR/test_a.py", ""},
		{". venv/bin/activate; nox -f $TESTS_DIR/test_a.py", ""},
		{". venv/bin/activate; behave $TESTS_DIR", ""},
		{"venv/bin/pytest tests/test_a.py", ""},
		{"uv run tests/test_a.py", ""},
	} {
		t.Run(c.script, func(t *testing.T) {
			t.Parallel()

			grader, sandboxes := newImageGrader(t, rollout.UserRoot, images)
			target := rollout.Target{RolloutID: fmt.Sprintf("in-work-%d", n), Attempt: 1}
			record := gradeAttempt(t, grader, sandboxes, target, "true", rollout.Verifier{Script: files + c.script + decides})

			if c.why == "" {
				require.NotNil(t, record.Reward, "%+v", record)
				require.Zero(t, *record.Reward)

				return
			}

			require.Nil(t, record.Reward, "%+v", record)
			require.Contains(t, record.Grading.Why, c.why)

			if strings.Contains(c.script, "PATH") {
				require.Contains(t, record.Stderr, "pytest: /app/venv/bin/pytest is in a folder of the work, from which the verifier runs nothing")
			}
		})
	}
}
