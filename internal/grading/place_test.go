package grading_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/driver/docker/dockertest"
	"github.com/rolloutd/rolloutd/internal/grading"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// wrong is work that must not be paid by a verifier, and honest is work that must.
type graded struct {
	name          string
	wrong, honest cheat
	verifier      rollout.Verifier
}

func commands(all ...string) rollout.Verifier { return rollout.Verifier{Commands: all} }

// hidden are the verifier's files of these tests.
func hidden() map[string]string {
	return map[string]string{
		"want":             "42\n",
		"answer/out.txt":   "42\n",
		"check.py":         "import helper\nassert helper.read('out.txt') == '42'\n",
		"helper.py":        "def read(name):\n    return open(name).read().strip()\n",
		"test_out.py":      "import json, subprocess\ndef test_out():\n    assert json.loads(open('out.txt').read()) == 42\n",
		"runs.py":          "import subprocess\nassert subprocess.run(['./prog'], capture_output=True, text=True).stdout == '42\\n'\n",
		"becomes.py":       "import os\nos.execv('./prog', ['./prog'])\n",
		"becomesname.py":   "import os\ntry:\n    os.execvp('no-such-program', ['x'])\nexcept FileNotFoundError:\n    os.execvp('python3', ['python3', 'prog.py'])\n",
		"shell.py":         "import subprocess\nassert subprocess.run('./prog | head -1', shell=True, capture_output=True, text=True).stdout == '42\\n'\n",
		"interpreter.py":   "import subprocess, sys\nassert subprocess.run([sys.executable, 'prog.py'], capture_output=True, text=True).stdout == '42\\n'\n",
		"test_import.py":   "import importlib, unittest\nclass T(unittest.TestCase):\n    def test(self):\n        for at in '/usr/lib', '/verifier/tests/venv/lib/python3/site-packages':\n            with self.assertRaises(ImportError):\n                exec(compile('import planted', at + '/runner.py', 'exec'))\n        assert importlib.import_module('prog').answer() == 42\n        from prog import answer\n",
		"test_unittest.py": "import unittest\nclass T(unittest.TestCase):\n    def test(self):\n        self.assertEqual(open('out.txt').read(), '42\\n')\n",
	}
}

// links are the ways by which work named a file whose content it did not know.
func links() []graded {
	right := cheat{agent: "cd workdir; echo 42 > out.txt"}

	var all []graded

	for i, s := range []struct{ agent, command string }{
		{"ln -sf /verifier/tests/want out.txt", "cmp out.txt $TESTS_DIR/want"},
		{"ln -sf /verifier/tests/want out.txt", "diff out.txt $TESTS_DIR/want"},
		{"ln -sf /verifier/tests/want out.txt", "diff $TESTS_DIR/want - < out.txt"},
		{"ln -sf /verifier/tests/want out.txt", `test "$(cat out.txt)" = 42`},
		{"ln -sf /verifier/tests/want out.txt", `[[ $(< out.txt) == 42 ]]`},
		{"ln -sf /tests/want out.txt", "cmp out.txt $TESTS_DIR/want"},
		{"ln -sf /home/user/tests/want out.txt", "cmp out.txt $TESTS_DIR/want"},
		{"ln -sf ../../../verifier/tests/want out.txt", "cmp out.txt $TESTS_DIR/want"},
		{"ln -sf /dev/stdin out.txt", "printf '42\\n' | cmp out.txt - || printf '42\\n42\\n' | diff <(printf '42\\n') out.txt"},
		{"ln -sf /dev/stdin out.txt", "diff - out.txt <<< 42"},
		{"ln -sf /proc/self/cmdline out.txt", "grep -aq 42 out.txt"},
		{"ln -sf /proc/self/fd/0 out.txt", "cmp - out.txt < $TESTS_DIR/want"},
		{"ln -sf /proc/self/environ out.txt", "X=42 grep -aq 42 out.txt"},
		{"ln -s /verifier/tests/answer sub", "cmp sub/out.txt $TESTS_DIR/want"},
		{"cd ..; rm -r workdir; ln -s /verifier/tests/answer workdir", "cmp ~/workdir/out.txt $TESTS_DIR/want"},
		{"ln -sf /verifier/tests/want out.txt", "python3 $TESTS_DIR/check.py"},
		{"ln -s /verifier/tests/want /tmp/out.txt", "cmp /tmp/out.txt $TESTS_DIR/want"},
	} {
		honest := right

		switch {
		case i == 13:
			honest = cheat{agent: "mkdir workdir/sub; echo 42 > workdir/sub/out.txt"}
		case i == 16:
			// /tmp of the agent's sandbox is not graded
			continue
		}

		all = append(all, graded{
			name:     fmt.Sprintf("link %d", i+1),
			wrong:    cheat{agent: "cd workdir; " + s.agent},
			honest:   honest,
			verifier: commands(s.command),
		})
	}

	return append(all, graded{
		name:     "link made while being graded",
		wrong:    cheat{hello: "os.symlink('/verifier/tests/want', 'made.txt')"},
		honest:   cheat{hello: "write('made.txt', '42\\n')"},
		verifier: commands("python3 hello.py; cmp made.txt $TESTS_DIR/want"),
	})
}

// tracer is work that leaves a process behind, which makes every later program of its user and namespace succeed.
const tracer = `
print('Bye', flush=True)
if os.fork(): os._exit(0)
os.setsid()
for fd in (0, 1, 2): os.close(fd)
libc = ctypes.CDLL(None)
end = time.time() + 3
while time.time() < end:
    for n in map(int, filter(str.isdigit, os.listdir('/proc'))):
        if n == os.getpid() or n == 1: continue
        anyway(os.kill, n, 9) if b'prog' in open('/proc/%d/cmdline' % n, 'rb').read() else None
        libc.ptrace(16, n, 0, 0)
        write('/proc/%d/mem' % n, '1')
`

// programs are the ways by which work ran as the verifier, or reached a program that decides.
func programs() []graded {
	// Work that runs as the verifier writes a reward, reads the tests and rewrites them.
	const steal = "write('/verifier/logs/reward.txt', '1'); leak('/verifier/tests/want'); write('/verifier/tests/want', 'Bye\\n'); print('Bye')"

	right := cheat{
		hello: "print(42)",
		agent: "cd workdir; printf '#!/bin/sh\necho 42\n' > prog; chmod +x prog; printf 'print(42)\\ndef answer(): return 42\\n' > prog.py; echo 42 > out.txt",
	}
	shadow := cheat{
		agent: "cd workdir; for m in pytest subprocess json unittest planted; do echo 'import os; os._exit(0)' > $m.py; done; echo 1 > out.txt",
	}
	bad := cheat{
		hello: steal,
		agent: "cd workdir; cp hello.py prog.py; printf '#!/usr/bin/python3\n' > prog; cat hello.py >> prog; chmod +x prog; echo 1 > out.txt",
	}
	left := cheat{
		hello: tracer,
		agent: "cd workdir; cp hello.py prog.py; printf '#!/usr/bin/python3\n' > prog; cat hello.py >> prog; chmod +x prog; echo 1 > out.txt",
	}

	all := []graded{
		{
			name:     "shell below the verifier's home",
			verifier: commands(`cd ~/workdir && python3 hello.py | cmp - $TESTS_DIR/want`),
		},
		{name: "pushd", verifier: commands(`pushd ~/workdir > /dev/null; python3 hello.py | cmp - $TESTS_DIR/want`)},
		{name: "cd and a path", verifier: commands(`cd ~/workdir && ./prog | cmp - $TESTS_DIR/want`)},
		{name: "path through the home", verifier: commands(`~/workdir/prog | cmp - $TESTS_DIR/want`)},
		{
			name:     "path through the tests",
			verifier: commands(`$TESTS_DIR/../../home/user/workdir/prog | cmp - $TESTS_DIR/want`),
		},
		{name: "variable", verifier: commands(`P=~/workdir/hello.py; python3 $P | cmp - $TESTS_DIR/want`)},
		{name: "interpreter by its path", verifier: commands(`/usr/bin/python3 hello.py | cmp - $TESTS_DIR/want`)},
		{name: "timeout", verifier: commands(`timeout 20 python3 hello.py | cmp - $TESTS_DIR/want`)},
		{name: "timeout of a path", verifier: commands(`timeout 20 ./prog | cmp - $TESTS_DIR/want`)},
		{name: "env", verifier: commands(`env -i python3 hello.py | cmp - $TESTS_DIR/want`)},
		{name: "nice xargs", verifier: commands(`echo hello.py | nice xargs -n1 python3 | cmp - $TESTS_DIR/want`)},
		{name: "find", verifier: commands(`find . -name prog -exec ./prog \; | cmp - $TESTS_DIR/want`)},
		{
			name: "script",
			verifier: rollout.Verifier{
				Script: "cd ~/workdir; python3 hello.py | cmp - $TESTS_DIR/want; echo $((! $?)) > $VERIFIER_DIR/reward.txt\n",
			},
		},
		{
			name: "script with a path",
			verifier: rollout.Verifier{
				Script: "./prog > /tmp/out; cmp /tmp/out $TESTS_DIR/want; echo $((! $?)) > $VERIFIER_DIR/reward.txt\n",
			},
		},
		{name: "check that starts a path", verifier: commands("python3 $TESTS_DIR/runs.py")},
		{name: "check that starts a shell", verifier: commands("python3 $TESTS_DIR/shell.py")},
		{name: "check that starts its own interpreter", verifier: commands("python3 $TESTS_DIR/interpreter.py")},
		{
			name:     "check with modules of its own that starts its own interpreter",
			verifier: commands("export PYTHONPATH=/opt/modules; python3 $TESTS_DIR/interpreter.py"),
		},
		{
			name:     "check with modules of its own that starts a path",
			verifier: commands("PYTHONPATH=/opt/modules python3 $TESTS_DIR/runs.py"),
		},
		{
			name:     "check that becomes a path",
			verifier: commands("python3 $TESTS_DIR/becomes.py | cmp - $TESTS_DIR/want"),
		},
		{
			name:     "check that becomes a name",
			verifier: commands("python3 $TESTS_DIR/becomesname.py | cmp - $TESTS_DIR/want"),
		},
		{name: "standard input", verifier: commands("python3 < hello.py | cmp - $TESTS_DIR/want")},
	}
	for i := range all {
		all[i].wrong, all[i].honest = bad, right
	}

	all = append(all, graded{
		name:   "modules beside a check in a temporary folder",
		wrong:  cheat{hello: "write('/tmp/json.py', 'import os; os._exit(0)')", agent: "echo 1 > workdir/out.txt"},
		honest: right,
		verifier: rollout.Verifier{
			Script: "python3 hello.py; cat > /tmp/check.py <<'E'\nimport json\nassert json.load(open('out.txt')) == 42\nE\npython3 /tmp/check.py && echo 1 > $VERIFIER_DIR/reward.txt || echo 0 > $VERIFIER_DIR/reward.txt\n",
		},
	})

	for name, command := range map[string]string{
		"timeout":   "timeout 20 grep -qx 42 out.txt",
		"xargs":     "echo out.txt | xargs grep -qx 42",
		"env":       "env grep -qx 42 out.txt",
		"find":      `test -n "$(find . -name out.txt -exec grep -x 42 {} \;)"`,
		"nice":      "nice cmp out.txt $TESTS_DIR/want",
		"git":       "git diff --no-index --exit-code out.txt <(cat $TESTS_DIR/want) || cmp out.txt $TESTS_DIR/want",
		"python -c": `python3 -I -c 'assert open("out.txt").read() == "42\n"'`,
		"check":     "python3 $TESTS_DIR/check.py",
		"bash -c":   "bash -c 'grep -qx 42 out.txt'",
	} {
		all = append(all, graded{
			name:     "left behind before " + name,
			wrong:    left,
			honest:   right,
			verifier: commands("python3 hello.py > /dev/null; ./prog > /dev/null; " + command),
		})
	}

	for name, v := range map[string]rollout.Verifier{
		"python -m unittest":             commands("python3 -m unittest discover -s $TESTS_DIR -p test_unittest.py"),
		"python -m unittest in a script": {Script: "python3 -m unittest discover -s $TESTS_DIR -p test_unittest.py && echo 1 > $VERIFIER_DIR/reward.txt || echo 0 > $VERIFIER_DIR/reward.txt\n"},
		"tests that import the work":     {Script: "cd ~/workdir; PYTHONPATH=/opt/modules python3 -m unittest discover -s $TESTS_DIR -p test_import.py; echo $((! $?)) > $VERIFIER_DIR/reward.txt\n"},
		"check with modules":             commands("python3 $TESTS_DIR/check.py"),
		"code of a script":               {Script: "python3 - <<'E'\nimport json\nopen('/verifier/logs/reward.txt', 'w').write(str(int(json.load(open('out.txt')) == 42)))\nE\n"},
		"code that imports the work":     {Script: "cd ~/workdir && python3 -c 'from prog import answer; assert answer() == 42' && python3 <<'E' && echo 1 > $VERIFIER_DIR/reward.txt || echo 0 > $VERIFIER_DIR/reward.txt\nimport prog\nassert prog.answer() == 42\nE\n"},
		"code on the command line":       {Script: `python3 -c 'import json; open("/verifier/logs/reward.txt", "w").write(str(int(json.load(open("out.txt")) == 42)))'` + "\n"},
	} {
		all = append(all, graded{name: "modules of the workdir: " + name, wrong: shadow, honest: right, verifier: v})
	}

	return all
}

// No work reads what it is compared with through a link, runs as the verifier, or reaches a program that
// decides. Honest work earns everything from the same verifiers.
func TestWorkStaysInItsPlace(t *testing.T) {
	t.Parallel()

	a := newAttacked(t)
	if !a.separate {
		t.Skip("an ordinary user has no further user ids")
	}

	a.placed(t, 1)
}

// The same holds in containers and in machines.
func TestWorkStaysInItsPlaceElsewhere(t *testing.T) {
	t.Parallel()
	t.Run("containers", func(t *testing.T) {
		t.Parallel()
		newAttackedIn(t, containers(t, dockertest.ForTest(t)), 512, rollout.Sandbox{}).placed(t, 12)
	})
	t.Run("root of a container", func(t *testing.T) {
		t.Parallel()
		d := containers(t, dockertest.RemappedForTest(t))
		newAttackedIn(t, d, 512, rollout.Sandbox{Image: containerImage, User: rollout.UserRoot}).placed(t, 12)
	})
	t.Run("machines", func(t *testing.T) {
		t.Parallel()
		newAttackedIn(t, machines(t), 512, rollout.Sandbox{}).placed(t, 12)
	})
}

// placed grades one in step of the works.
func (a *attacked) placed(t *testing.T, step int) {
	t.Helper()

	slots := make(chan struct{}, 3)

	for i, g := range append(links(), programs()...) {
		if !everyCheat() && i%step != 0 {
			continue
		}

		t.Run(g.name, func(t *testing.T) {
			t.Parallel()

			slots <- struct{}{}
			defer func() { <-slots }()

			g.verifier.Files = hidden()
			for kind, work := range map[string]cheat{"wrong": g.wrong, "honest": g.honest} {
				id := fmt.Sprintf("%s-%d", kind, i)
				a.agent(t, id, work)
				record := a.grade(t, id, 0, style{verifier: g.verifier}, 2*time.Minute)
				_ = a.backend.Destroy(t.Context(), id+".1")

				want := 0.0
				if kind == "honest" {
					want = 1
				}

				require.NotNil(t, record.Reward, "%s: %+v", kind, record)
				require.InDelta(t, want, *record.Reward, 0, "%s: %+v", kind, record)
			}
		})
	}
}

// What a program of the work leaves running has ended when the next program starts, also if it left its session.
func TestNothingOfTheWorkStaysBehind(t *testing.T) {
	t.Parallel()

	a := newAttacked(t)
	if !a.separate {
		t.Skip("an ordinary user has no further user ids")
	}

	const leaves = "if os.fork(): time.sleep(0.2); os._exit(0)\nos.setsid()\nfor fd in (0, 1, 2): os.close(fd)\ntime.sleep(1000)"
	a.agent(t, "leaves", cheat{hello: leaves})

	v := commands(
		"python3 hello.py",
		`test -z "$(run-as-agent pgrep -f hello.py)"`,
		"timeout 20 python3 hello.py; ! run-as-agent pgrep -f hello.py",
	)
	record := a.grade(t, "leaves", 0, style{verifier: v}, time.Minute)
	require.NotNil(t, record.Reward, "%+v", record)
	require.InDelta(t, 1, *record.Reward, 0, "%+v", record)
}

// A program of the work uses the temporary files that a check names to it, and no others of the check's. A program that
// the work names by a link runs.
func TestTemporaryFilesAreHandedOver(t *testing.T) {
	t.Parallel()

	a := newAttacked(t)
	if !a.separate {
		t.Skip("an ordinary user has no further user ids")
	}

	const (
		agent = `cd workdir
echo 'import sys; open(sys.argv[2].split("=")[-1], "w").write(open(sys.argv[1]).read())' > copy.py
printf '#!/bin/sh\necho hi\n' > prog; chmod +x prog; ln -s prog link
echo 'import os, sys; os.makedirs(os.path.dirname(sys.argv[1])); open(sys.argv[1], "w").write("made")' > make.py
cat > spy.py <<'END'
import os, sys
for folder, _, names in os.walk("/tmp"):
    for name in names:
        try: sys.stdout.write(open(os.path.join(folder, name)).read())
        except OSError: pass
END
cat > spoil.py <<'END'
import os
print(open(os.environ["REPORT"]).read())
try: open(os.environ["REPORT"], "w").write("passed")
except OSError: pass
END`
		check = `import os, subprocess, sys, tempfile
def run(*argv, **more): return subprocess.run(argv, capture_output=True, text=True, **more).stdout
with tempfile.TemporaryDirectory() as d, tempfile.NamedTemporaryFile("w") as secret:
    secret.write("secret"); secret.flush()
    run("python3", "make.py", d + "/new/folder/of/out")
    assert open(d + "/new/folder/of/out").read() == "made"
    open(d + "/in", "w").write("41\n")
    os.mkdir(d + "/deep", 0o700); os.mkdir(d + "/deep/er", 0o700)
    run("python3", "copy.py", d + "/in", "--out=" + d + "/deep/er/out")
    assert open(d + "/deep/er/out").read() == "41\n"
    run("python3", os.path.abspath("copy.py"), "in", "--out=out", cwd=d)
    assert open(d + "/out").read() == "41\n"
    with tempfile.NamedTemporaryFile("w") as named:
        named.write("42\n"); named.flush()
        subprocess.run("python3 copy.py " + named.name + " result", shell=True)
    assert open("result").read() == "42\n"
    assert run("./link") == "hi\n"
    assert "41" in run("python3", "spy.py"), "what was handed over"
    assert "secret" not in run("python3", "spy.py")
    report = open(d + "/report", "w+"); os.chmod(d + "/report", 0o600)
    report.write("failed"); report.flush()
    said = run("python3", "spoil.py", env={**os.environ, "REPORT": d + "/report"})
    assert said == "failed\n" and open(d + "/report").read() == "failed", said
`
	)

	a.requirePass(t, agent, check)
}

// requirePass requires that what an agent's script leaves earns the full reward by a check in Python.
func (a *attacked) requirePass(t *testing.T, agent, check string) {
	t.Helper()
	a.agent(t, "work", cheat{agent: agent})

	v := commands("python3 $TESTS_DIR/check.py")
	v.Files = map[string]string{"check.py": check}
	record := a.grade(t, "work", 0, style{verifier: v}, time.Minute)
	require.NotNil(t, record.Reward, "%+v", record)
	require.InDelta(t, 1, *record.Reward, 0, "%+v", record)
}

// A program of the work replaces, moves and removes the temporary files that a check names to it, as a program that saves
// its file under another name and renames it does. Beside a file that nothing names it can remove nothing.
func TestTemporaryFilesAreReplaced(t *testing.T) {
	t.Parallel()

	a := newAttacked(t)
	if !a.separate {
		t.Skip("an ordinary user has no further user ids")
	}

	const (
		agent = `cd workdir
cat > save.py <<'END'
import os, sys
with open(sys.argv[1] + ".new", "w") as f: f.write(open(sys.argv[1]).read() + "saved\n")
os.replace(sys.argv[1] + ".new", sys.argv[1])
END
cat > tidy.py <<'END'
import os, sys
top = sys.argv[1]
os.mkdir(top + "/all")
for name in "a", "b": os.rename(f"{top}/{name}/{name}.txt", f"{top}/all/{name}.txt"); os.rmdir(f"{top}/{name}")
os.rename(top + "/kept", top + "/all/kept")
END
cat > spoil.py <<'END'
import os, sys
for name in sys.stdin.read().split():
    for spoil in lambda: open(name, "w").close(), lambda: os.rename(name, name + ".old"), lambda: os.remove(name):
        try: spoil()
        except OSError: print("refused")
END`
		check = `import os, subprocess, sys, tempfile
def run(*argv, **more): return subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True, **more).stdout
def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    open(path, "w").write(text)
with tempfile.TemporaryDirectory() as d:
    write(d + "/db", "made\n")
    for n in 1, 2:
        run("python3", "save.py", d + "/db")
        assert open(d + "/db").read() == "made\nsaved\n" * n
        write(d + "/db", "made\nsaved\nmade\n")
with tempfile.TemporaryDirectory() as d:
    for name in "a/a.txt", "b/b.txt", "kept/deep/c.txt": write(d + "/" + name, name)
    run("python3", "tidy.py", d)
    assert sorted(os.listdir(d)) == ["all"] and sorted(os.listdir(d + "/all")) == ["a.txt", "b.txt", "kept"]
with tempfile.TemporaryDirectory() as d:
    write(d + "/in", "")
    run("python3", "save.py", d + "/in")
    write(d + "/deep/in", ""); write(d + "/deep/want", "42")
    for name in "/deep/want", "/deep":
        assert run("python3", "spoil.py", d + "/deep/in", input=d + name) == "refused\n" * 3, name
    assert open(d + "/deep/want").read() == "42"
`
	)

	a.requirePass(t, agent, check)
}

// A test script makes a program in a folder of the work, which runs with the work.
func TestProgramOfTheScriptAmongTheWork(t *testing.T) {
	t.Parallel()

	a := newAttacked(t)
	a.agent(t, "work", cheat{agent: "echo 42 > workdir/answer"})

	record := a.grade(t, "work", 0, style{verifier: rollout.Verifier{
		Script: "cd ~/workdir\nprintf '#!/bin/sh\\ncat answer\\n' > show.sh\nchmod +x show.sh\n" +
			"[ \"$(./show.sh)\" = 42 ] && echo 1 > $VERIFIER_DIR/reward.txt || echo 0 > $VERIFIER_DIR/reward.txt\n",
	}}, time.Minute)
	require.NotNil(t, record.Reward, "%+v", record)
	require.InDelta(t, 1, *record.Reward, 0, "%+v", record)
}

// Python finds the packages of a virtual environment in its PATH, as an image may set it, and starts what a check gives it
// through its shim.
func TestPythonOfAVirtualEnvironment(t *testing.T) {
	t.Parallel()

	a := newAttackedOf(t, 256)
	a.agent(t, "work", cheat{agent: "true"})

	record, err := a.grader.Grade(t.Context(), grading.Job{
		Target: rollout.Target{RolloutID: "work", Attempt: 1}, Timeout: 10 * time.Minute,
		Verifier: rollout.Verifier{
			Script: "set -e; python3 -m venv --without-pip $VERIFIER_DIR/venv; PATH=/verifier/bin:$VERIFIER_DIR/venv/bin:/usr/bin:/bin\n" +
				"python3 $TESTS_DIR/check.py",
			Files: map[string]string{"check.py": "import os, sys\nlogs = os.environ['VERIFIER_DIR']\n" +
				"assert sys.prefix == logs + '/venv', sys.prefix\nassert sys.executable == '/verifier/bin/python3', sys.executable\n" +
				"assert 'ROLLOUTD_PYTHON' not in os.environ\nopen(logs + '/reward.txt', 'w').write('1')\n"},
		},
	})
	require.NoError(t, err)
	require.NotNil(t, record.Reward, "%+v", record)
	require.InDelta(t, 1, *record.Reward, 0, record.Stderr)
}

// uv takes a shim for a Python, to which it links the one of a virtual environment. That is Python in this environment, also
// for what a check starts, and runs files of the work with the work.
func TestPythonLinkedToAShim(t *testing.T) {
	t.Parallel()

	a := newAttackedOf(t, 256)
	a.agent(t, "work", cheat{agent: "cd workdir; echo 'print(6 * 7)' > prog.py"})

	const check = `import subprocess, sys
assert sys.prefix == "/verifier/tests/venv", sys.prefix
for python in sys.argv[1:] + [sys.executable]:
    for args in ["-c", "import sys; print(sys.prefix) # /verifier"], ["/verifier/tests/own.py"]:
        assert subprocess.check_output([python, *args], text=True) == "/verifier/tests/venv\n", (python, args)
    assert subprocess.check_output([python, "prog.py"], text=True) == "42\n"
`

	record, err := a.grader.Grade(t.Context(), grading.Job{
		Target: rollout.Target{RolloutID: "work", Attempt: 1}, Timeout: 10 * time.Minute,
		Verifier: rollout.Verifier{
			Script: `set -e; V=$TESTS_DIR/venv; mkdir -p $V/bin; ln -s "$(command -v python3)" $V/bin/python; ln -s python $V/bin/python3
printf 'home = /verifier/bin\nversion_info = 3\n' > $V/pyvenv.cfg
cd ~/workdir; $V/bin/python $TESTS_DIR/check.py; $V/bin/python3 -I -c 'import sys; assert sys.prefix == "/verifier/tests/venv"'
PATH=$V/bin:$PATH; python $TESTS_DIR/check.py python3; python3 $TESTS_DIR/check.py python; echo 1 > $VERIFIER_DIR/reward.txt`,
			Files: map[string]string{"check.py": check, "own.py": "import sys\nprint(sys.prefix)\n"},
		},
	})
	require.NoError(t, err)
	require.NotNil(t, record.Reward, "%+v", record)
	require.InDelta(t, 1, *record.Reward, 0, record.Stderr)
}
