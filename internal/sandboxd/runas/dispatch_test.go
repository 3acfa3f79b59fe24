package runas_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/sandboxd/runas"
)

// What runs with the work is decided by what a program and its arguments name, at the moment at which the
// program starts.
func TestDispatch(t *testing.T) {
	t.Parallel()

	work := t.TempDir()
	for _, name := range []string{"x.py", "prog", "out.txt", "run.sh", "main.c", "sub/Makefile", "compose.yml", "run", "no:cacheprovider", "jest", "3.13"} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(work, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(work, name), []byte("#!/bin/sh\n"), 0o755))
	}

	require.NoError(t, os.Symlink("/verifier/tests/check.py", filepath.Join(work, "link.py")))

	for command, want := range map[string]string{
		// The work's.
		"python3 x.py": "work work", "./prog": "work work", "WORK/prog a": "work work", "/verifier/../WORK/prog": "work work",
		"/usr/bin/python3 x.py": "work work", "bash run.sh": "work work", "sh ./run.sh": "work work", "make": "work work",
		"make -C sub": "work work", "cargo test": "work work", "npm test": "work work", "unknown out.txt": "work work", "unknown": "work work",
		"python3 x.py /verifier/tests/in": "work work", "./prog /verifier/tests/in": "work work", "gcc -o prog main.c": "work work",
		"python3 link.py": "work work", "python3 -W ignore x.py": "work work", "git diff --exit-code": "work work", "mkdir build": "work work",
		"chmod +x run.sh": "work work", "tee out.txt": "work work", "pip install x.py": "work work", "python3 -u x.py": "work work",
		"awk -f x.py": "work work", "sed -nf run.sh /verifier/tests/in": "work work", "gawk -frun.sh x": "work work", "sed --file=run.sh": "work work",
		"jq -rf run.sh /verifier/tests/in": "work work", "jq -L sub .": "work work",
		"/usr/bin/mawk -v a=1 --file run.sh": "work work", "node sub": "work work", "bash -e run.sh": "work work",

		// The verifier's.
		"python3 /verifier/tests/check.py": "verifier verifier", "/verifier/tests/run": "verifier verifier",
		"/usr/bin/python3 /verifier/tests/check.py x.py": "verifier verifier", "python3 -m pytest -q /verifier/tests": "verifier verifier",
		"pytest /verifier/tests": "verifier verifier", "python3 -m unittest discover -s /verifier/tests": "verifier verifier",
		"gcc -o new /verifier/tests/main.c": "verifier verifier", "grep -q x out.txt": "verifier verifier", "diff a b": "verifier verifier",
		"awk -F: x.py out.txt": "verifier verifier", "sed -n -e p x.py": "verifier verifier", "jq -r .f x.py": "verifier verifier", "awk -f /verifier/tests/a.awk x.py": "verifier verifier",
		"sed -ibak -e f run.sh": "verifier verifier", "awk -f absent": "verifier verifier",
		"timeout 5 ./prog": "verifier verifier", "xargs python3": "verifier verifier", "env -i ./prog": "verifier verifier",
		"cp out.txt /verifier/logs": "verifier verifier", "mkdir -p /verifier/logs/x": "verifier verifier",
		"python3 -W ignore /verifier/tests/check.py": "verifier verifier",

		// The work has files that are called like what is no file.
		"pytest -p no:cacheprovider /verifier/tests/x.py": "verifier verifier", "go run /verifier/tests/check.go": "verifier verifier",
		"uvx -p 3.13 -w pytest==8.4.1 pytest --ctrf /verifier/logs/ctrf.json /verifier/tests/x.py": "verifier verifier",
		"npx jest /verifier/tests": "verifier verifier", "uv run pytest -k run /verifier/tests": "verifier verifier",
		"pytest x.py --junitxml /verifier/logs/x.xml": "work work", "pytest -k x.py": "work work", "go run ./run /verifier/tests/in": "work work",

		// uv builds the project of a folder, and runs its code for that.
		"uv run prog-of-project": "work work", "uv sync": "work work", "uv --color never run prog": "work work",
		"uv pip install pytest": "work verifier", "uv --offline tool install x": "work verifier", "uvx ruff": "work verifier",

		// Code of the author's: a command imports the work by it, a script decides by it if it names
		// anything of the verifier's.
		"python3 -c open('/verifier/logs/x')": "work verifier", "python3": "work verifier", "python3 -": "work verifier",
		"bash -lc $TESTS_DIR/x": "work verifier", "node -e VERIFIER_DIR": "work verifier", "python3.11 -Ic open('/tests/x')": "work verifier",
		"python3 -c code": "work work", "perl -ne code": "work work",
		"pip install pytest": "work verifier", "curl -s localhost:1": "work verifier", "id -u": "work verifier",
	} {
		argv := strings.Fields(strings.ReplaceAll(command, "WORK", work))
		got := []string{"verifier", "verifier"}

		for i, own := range []bool{false, true} {
			if runas.BelongsToWork(argv, work, []string{work}, own) {
				got[i] = "work"
			}
		}

		require.Equal(t, want, strings.Join(got, " "), "%s: in a command, in a script", command)
	}

	require.True(
		t,
		runas.BelongsToWork([]string{"python3", work + "/later.py"}, "/verifier/tests", []string{work}, true),
	)

	for dir, want := range map[string]bool{"/verifier/tests": false, "/": true, filepath.Join(work, "sub"): true} {
		require.Equal(t, want, runas.BelongsToWork([]string{"make"}, dir, []string{work}, true), dir)
	}
}

// In an image of the verifier's own, what a program runs decides, too: its files are the verifier's, and those of the
// work run with the work, whatever program of the image is given them.
func TestDispatchInOwnImage(t *testing.T) {
	t.Parallel()

	image, work := t.TempDir(), t.TempDir()
	for _, name := range []string{image + "/check.py", work + "/x.py", work + "/prog"} {
		require.NoError(t, os.WriteFile(name, []byte("#!/bin/sh\n"), 0o755))
	}

	for command, isWork := range map[string]bool{
		"python3 IMAGE/check.py": false, "python3 check.py WORK/x.py": false, "judge": false, "pytest": false,
		"python3 -m pytest IMAGE": false, "IMAGE/check.py": false, "python3 /verifier/tests/a.py": false,
		"python3 -c open('/tests/x')": false, "git apply --index WORK/x.py": false,
		"cp WORK/x.py IMAGE/new.py": false, "cp WORK/x.py new.py": false, "mkdir -p build/new": false, "tar -xf WORK/x.tar -C IMAGE -v": false,

		"cp IMAGE/../x WORK/new.py": true, "mkdir -m 755 WORK/new": true, "cp WORK/x.py WORK/new.py -r": true, "rm -r": true,
		"git -C WORK apply x.py": true, "git diff WORK/x.py": true, "python3 WORK/x.py": true, "WORK/prog": true, "IMAGE/check.py WORK/x.py": true, "IMAGE/../IMAGE/python3 WORK/x.py": true,
		"python3 absent WORK/x.py": true, "node eval WORK/prog IMAGE/check.py": true, "judge WORK/prog": true,
		"python3 -c code": true, "python3 WORK/later.py": true,
	} {
		argv := strings.Fields(strings.NewReplacer("WORK", work, "IMAGE", image).Replace(command))
		require.Equal(t, isWork, runas.BelongsToWorkInOwnImage(argv, image, []string{work}), command)
	}

	// pip runs the script of a package by code, and gives it a temporary folder; npm runs commands by a shell
	for _, c := range []struct {
		argv   []string
		dir    string
		isWork bool
	}{
		{[]string{"python3", "-c", "import setuptools; f = '" + image + "/setup.py'", "egg_info", "--egg-base", work}, image, false},
		{[]string{"python3", "-c", "import setuptools; f = '" + work + "/setup.py'", "egg_info"}, image, true},
		{[]string{"python3", "-c", "f = '" + image + "/setup.py'", work}, image, true},
		{[]string{"sh", "-c", "tsc -p . && jest --cacheDirectory /var/tmp/jest"}, image, false},
		{[]string{"sh", "-c", "node check.js " + work}, image, true},
		{[]string{"sh", "-c", "tsc -p ."}, work, true},
		{[]string{"node", "-e", "build()"}, image, true},
	} {
		require.Equal(t, c.isWork, runas.BelongsToWorkInOwnImage(c.argv, c.dir, []string{work, "/var/tmp"}), c.argv)
	}

	require.True(t, runas.BelongsToWorkInOwnImage([]string{"make"}, work, []string{work}))
	require.True(t, runas.BelongsToWorkInOwnImage([]string{"git", "apply", "x.py"}, work, []string{work}))

	// python3 -m pytest finds the modules of a repository in the image
	for _, c := range []struct {
		dir  string
		own  bool
		path string
	}{{image, true, ":" + image}, {work, true, ""}, {image, false, ""}} {
		env := runas.Environment([]string{"python3", "-m", "x"}, c.dir, []string{work}, c.own)
		require.Contains(t, env, "PYTHONSAFEPATH=1")
		require.Contains(t, env, "PYTHONPATH="+runas.PythonHooks+c.path)
		require.Equal(t, c.dir == work, slices.Contains(env, "ROLLOUTD_WORK_MODULES="+work))
	}
}

// In a folder of the work, uv uses neither the project nor its settings.
func TestUvOfTheVerifier(t *testing.T) {
	t.Parallel()

	work := t.TempDir()
	for _, dir := range []string{work, "/verifier/tests"} {
		env := runas.Environment([]string{"uv", "run", "pytest", "/verifier/tests"}, dir, []string{work}, false)
		for _, variable := range []string{"UV_NO_SYNC=1", "UV_NO_CONFIG=1"} {
			require.Equal(t, dir == work, slices.Contains(env, variable), dir)
		}
	}
}

// Where a script sets the folders of Python's modules, a check has them beside its hooks, and the work has them alone.
func TestFoldersOfModules(t *testing.T) {
	t.Parallel()

	hooks := "PYTHONPATH=" + runas.PythonHooks

	for given, c := range map[string]struct{ verifier, work string }{
		"A=":                            {hooks, ""},
		hooks:                           {hooks, ""},
		"PYTHONPATH=/app/src:/opt/x":    {hooks + ":/app/src:/opt/x", "PYTHONPATH=/app/src:/opt/x"},
		"PYTHONPATH=/app:" + hooks[11:]: {hooks + ":/app", "PYTHONPATH=/app"},
		hooks + ":/verifier/tests:/app": {hooks + ":/verifier/tests:/app", "PYTHONPATH=/app"},
	} {
		for _, program := range []string{"pytest", "bash", "/opt/venv/bin/pytest"} {
			require.Equal(t, c.verifier, last(runas.EnvironmentOf(program, []string{given})), given)
		}

		require.Equal(t, c.verifier, last(runas.EnvironmentOf("python3", []string{given})), given)

		if of := last(runas.EnvironmentOfWork([]string{given})); c.work != "" {
			require.Equal(t, c.work, of, given)
		} else {
			require.NotContains(t, of, "PYTHONPATH", given)
		}
	}
}

func last(list []string) string { return list[len(list)-1] }

// A wrapper gets run-here before a program that it would start by a path, and env before any program.
func TestWrappersStartDispatchedPrograms(t *testing.T) {
	t.Parallel()
	work := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(work, "prog"), nil, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(work, "list"), nil, 0o644))

	for command, want := range map[string]string{
		"timeout 5 ./prog":             "timeout 5 @ ./prog",
		"timeout 5 python3 x.py":       "timeout 5 python3 x.py",
		"xargs -a ./list ./prog":       "xargs -a ./list @ ./prog",
		"find . -exec ./prog {} ;":     "find . -exec @ ./prog {} ;",
		"env -i A=1 python3 x.py":      "env -i A=1 @ python3 x.py",
		"env -u A -C / python3":        "env -u A -C / @ python3",
		"env":                          "env",
		"nice -n 5 /bin/true":          "nice -n 5 @ /bin/true",
		"/usr/bin/timeout 5 /bin/true": "/usr/bin/timeout 5 @ /bin/true",
	} {
		got := runas.Prepare(strings.Fields(command), work, []string{work})
		require.Equal(t, strings.ReplaceAll(want, "@", "/verifier/bin/run-here"), strings.Join(got, " "))
	}
}

// For any program and arguments, what the work's folders hold never runs beside the verifier.
func FuzzDispatch(f *testing.F) {
	f.Add("python3 x.py", "/home/user/workdir")
	f.Add("../../verifier/tests/x", "/home/user")
	f.Fuzz(func(t *testing.T, command, dir string) {
		argv := strings.Fields(command)
		if len(argv) == 0 || !filepath.IsAbs(dir) {
			return
		}

		argv[0] = "/home/user/" + strings.ReplaceAll(argv[0], "..", "")
		require.True(t, runas.BelongsToWork(argv, dir, []string{"/home/user"}, true))
	})
}
