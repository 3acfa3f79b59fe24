package runas_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Without PYTHONSAFEPATH, which Python before 3.11 ignores, a module of the current folder or of the script's takes no place of
// one that the verifier imports.
func TestHookKeepsWorkOutOfTheSearchPath(t *testing.T) {
	t.Parallel()

	hooks, work, tests := t.TempDir(), t.TempDir(), t.TempDir()
	hook, err := os.ReadFile("sitecustomize.py")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(hooks, "sitecustomize.py"), hook, 0o600))

	const code = "import json, sys\nassert json.loads('1') == 1\nimport beside\n"

	for name, text := range map[string]string{
		work + "/json.py": "", work + "/unittest.py": "exit(1)", work + "/runpy.py": "", work + "/check.py": code,
		tests + "/beside.py": "", tests + "/check.py": code, tests + "/all/__main__.py": code, tests + "/all/beside.py": "",
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o700))
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	}

	for _, args := range [][]string{
		{"-m", "unittest", "--help"},
		{"-c", code},
		{"-"},
		{},
		{"check.py"},
		{tests + "/check.py"},
		{tests + "/all"},
		// a built-in module, whose finder is the first one
		{"-c", "import sys; __import__(next(m for m in sys.builtin_module_names if m not in sys.modules))"},
		{"-c", "import sys; sys.path.insert(0, ''); import json; assert not hasattr(json, 'loads')"},
	} {
		cmd := exec.CommandContext(t.Context(), "python3", args...)
		cmd.Dir, cmd.Stdin = work, strings.NewReader(code)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + work, "PYTHONPATH=" + hooks + ":" + tests}
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%q: %s", args, out)
	}
}

// A program that a check starts with an environment of its own is dispatched as any other: run-here has the variables by which
// it decides.
func TestHookKeepsWhatDecides(t *testing.T) {
	t.Parallel()

	hooks := t.TempDir()
	hook, err := os.ReadFile("sitecustomize.py")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(hooks, "sitecustomize.py"), hook, 0o600))

	here := filepath.Join(hooks, "run-here")
	require.NoError(t, os.WriteFile(here, []byte("#!/bin/sh\necho \"$*: $A $ROLLOUTD_OWN_IMAGE $ROLLOUTD_WORK_FOLDERS\"\n"), 0o700))

	const code = `import os, subprocess, sys, sitecustomize
sitecustomize._RUN_HERE = sys.argv[1]
print(subprocess.run(["/bin/true", "x"], env={"A": "a", "ROLLOUTD_WORK_FOLDERS": "/b"}, capture_output=True, text=True).stdout, end="", flush=True)
os.execve("/bin/true", ["true", "y"], {"A": "b"})`

	cmd := exec.CommandContext(t.Context(), "python3", "-c", code, here)
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "PYTHONPATH=" + hooks, "ROLLOUTD_OWN_IMAGE=1", "ROLLOUTD_WORK_FOLDERS=/app",
	}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, "/bin/true x: a 1 /b\n/bin/true y: b 1 /app\n", string(out))
}
