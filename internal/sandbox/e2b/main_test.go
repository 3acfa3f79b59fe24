package e2b_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/sandbox/driver"
	"github.com/rolloutd/rolloutd/internal/sandbox/e2b"
	"github.com/rolloutd/rolloutd/internal/sandbox/e2b/e2btest"
	"github.com/rolloutd/rolloutd/internal/sandbox/sandboxtest"
)

// world is what the tests of this package share: the binary under test, and why there is no service.
var world struct {
	sandboxd string
	dir      string
	reason   string
}

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "e2b")
	if err == nil {
		defer os.RemoveAll(dir)
		err = prepare(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

func prepare(dir string) error {
	var err error
	if world.sandboxd, err = sandboxtest.BuildSandboxd(context.Background(), dir); err != nil {
		return err
	}
	world.dir = dir
	trial, err := e2btest.Start(context.Background(), filepath.Join(dir, "trial"))
	var unavailable *e2btest.UnavailableError
	if errors.As(err, &unavailable) {
		world.reason = unavailable.Error()
		return nil
	}
	if err != nil {
		return err
	}
	return trial.Stop()
}

// service starts a service of the test's own.
func service(t testing.TB) *e2btest.Server {
	t.Helper()
	if world.reason != "" {
		t.Skip(world.reason)
	}
	dir, err := os.MkdirTemp(world.dir, "")
	require.NoError(t, err)
	s, err := e2btest.Start(t.Context(), dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Stop()) })
	return s
}

// options are those of a driver over the service.
func options(t testing.TB, s *e2btest.Server) e2b.Options {
	t.Helper()
	return e2b.Options{
		Dir: t.TempDir(), SandboxdPath: world.sandboxd, Key: s.Key, Template: e2btest.Template, APIURL: s.URL, SandboxURL: s.URL, CreateRate: 1000,
	}
}

func open(t testing.TB, o e2b.Options) *e2b.Driver {
	t.Helper()
	d, err := e2b.New(o)
	require.NoError(t, err)
	return d
}

// The suite holds. Its tests of files and of large outputs do not differ from those of other drivers; ROLLOUTD_REDTEAM runs them too.
func TestSuite(t *testing.T) {
	t.Parallel()
	groups := []string{"Lifecycle", "Process", "Exec", "Kill", "Model", "Network", "Ports", "Users", "Limits"}
	if os.Getenv("ROLLOUTD_REDTEAM") != "" {
		groups = nil
	}
	s := service(t)
	at, err := e2b.ProgramPath(world.sandboxd)
	require.NoError(t, err)
	require.NoError(t, s.AddProgram(at, world.sandboxd))
	o := options(t, s)
	sandboxtest.Run(t, sandboxtest.Harness{Open: func(t *testing.T) driver.Driver { return open(t, o) }, Groups: groups})
}
