package local_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/driver/local"
	"github.com/rolloutd/rolloutd/internal/sandbox/sandboxtest"
)

// sandboxdPath is the binary under test, built once for the package. Only its owner can enter its folder,
// as may be the case for an operator's folder.
var sandboxdPath string

// sandboxdEnv names the binary under test if this process cannot build it.
const sandboxdEnv = "ROLLOUTD_TEST_SANDBOXD"

func TestMain(m *testing.M) {
	if job := os.Getenv(workerEnv); job != "" {
		os.Exit(work(job))
	}

	os.Exit(run(m))
}

func run(m *testing.M) int {
	if sandboxdPath = os.Getenv(sandboxdEnv); sandboxdPath != "" {
		return m.Run()
	}

	dir, err := os.MkdirTemp("", "sandboxd")
	if err == nil {
		defer os.RemoveAll(dir)

		sandboxdPath, err = sandboxtest.BuildSandboxd(context.Background(), dir)
	}

	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}

	return m.Run()
}

// open creates a driver. Without bwrap it fails and never skips.
func open(t testing.TB, o local.Options) *local.Driver {
	t.Helper()

	if o.Dir == "" {
		o.Dir = t.TempDir()
	}

	if o.SandboxdPath == "" {
		o.SandboxdPath = sandboxdPath
	}

	d, err := local.New(o)
	require.NoError(t, err)

	return d
}

func needRoot(t *testing.T) {
	t.Helper()

	if os.Geteuid() != 0 {
		t.Skip("only root gives sandboxes user ids and cgroups")
	}
}

// place creates a sandbox in its own data folder.
func place(t *testing.T, spec driver.Spec) *sandboxtest.Place {
	t.Helper()
	return sandboxtest.New(t, open(t, local.Options{}), spec)
}

func TestSuite(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	sandboxtest.Run(t, sandboxtest.Harness{
		Open: func(t *testing.T) driver.Driver { return open(t, local.Options{Dir: dir}) },
	})
}
