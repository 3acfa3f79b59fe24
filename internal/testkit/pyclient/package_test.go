package pyclient_test

import (
	"archive/zip"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/testkit/pyclient"
)

// Checks the Python package: its own tests, the types of its code and tests, and that the wheel can be
// imported with only its dependency installed.
func TestPackageForPython(t *testing.T) {
	t.Parallel()
	python := pyclient.Interpreter(t, pyclient.Packaging()).WithPackage(t)
	dir := pyclient.PackageDir(t)
	t.Run("tests", func(t *testing.T) {
		t.Parallel()
		run(t, dir, python.Command(t, "-m", "pytest", "-p", "no:cacheprovider"))
	})
	t.Run("environments", func(t *testing.T) {
		t.Parallel()
		atropos := pyclient.Interpreter(t, pyclient.Atropos()).WithPackage(t)
		out := run(t, dir, atropos.Command(t, "-m", "pytest", "-p", "no:cacheprovider", filepath.Join("tests", "test_atropos.py")))
		require.NotContains(t, out, "skipped")
	})
	t.Run("types", func(t *testing.T) {
		t.Parallel()
		run(t, dir, python.Command(t, "-m", "mypy", "--cache-dir", t.TempDir()))
	})
	t.Run("wheel", func(t *testing.T) {
		t.Parallel()
		wheel := buildWheel(t, python, dir)
		require.Contains(t, filesOf(t, wheel), "rolloutd/py.typed")
		home := t.TempDir()
		run(t, home, python.Command(t, "-m", "pip", "install", "--quiet", "--no-deps", "--target", home, wheel))
		cmd := python.Command(t, "-c", "import rolloutd.trl; print(rolloutd.__file__)")
		cmd.Env = append(cmd.Env, "PYTHONPATH="+home)
		require.Contains(t, run(t, home, cmd), home)
	})
}

// Runs one step of TRL's trainer on a tiny model, and the tests of the example that learns. Only `deploy/suite.sh trl` runs it, because the libraries take 3 GB.
func TestPackageForPythonTrains(t *testing.T) {
	if os.Getenv("ROLLOUTD_TEST_TRL") == "" {
		t.Skip("set ROLLOUTD_TEST_TRL=1, as deploy/suite.sh trl does")
	}

	t.Parallel()
	python := pyclient.Interpreter(t, pyclient.Torch()).WithPackage(t)
	out := run(
		t,
		pyclient.PackageDir(t),
		python.Command(t, "-m", "pytest", "-p", "no:cacheprovider", filepath.Join("tests", "test_grpo.py")),
	)
	require.Contains(t, out, "1 passed")

	example := filepath.Join(pyclient.PackageDir(t), "..", "..", "examples", "learning")
	run(t, example, python.Command(t, "-m", "pytest", "-q", "-p", "no:cacheprovider"))
}

// buildWheel builds the wheel from a copy of the package, because the build writes next to its sources.
func buildWheel(t *testing.T, python pyclient.Python, dir string) string {
	t.Helper()
	source, out := t.TempDir(), t.TempDir()
	require.NoError(t, os.CopyFS(source, os.DirFS(dir)))
	run(
		t,
		source,
		python.Command(
			t,
			"-m",
			"pip",
			"wheel",
			"--quiet",
			"--no-deps",
			"--no-build-isolation",
			"--wheel-dir",
			out,
			".",
		),
	)
	wheels, err := filepath.Glob(filepath.Join(out, "*.whl"))
	require.NoError(t, err)
	require.Len(t, wheels, 1)

	return wheels[0]
}

func filesOf(t *testing.T, wheel string) []string {
	t.Helper()

	r, err := zip.OpenReader(wheel)
	require.NoError(t, err)

	defer r.Close()

	var names []string
	for _, f := range r.File {
		names = append(names, f.Name)
	}

	return names
}

func run(t *testing.T, dir string, cmd *exec.Cmd) string {
	t.Helper()

	cmd.Dir = dir

	var out bytes.Buffer

	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoErrorf(t, cmd.Run(), "%s:\n%s", cmd, &out)

	return out.String()
}
