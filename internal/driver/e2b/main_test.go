package e2b_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/driver/e2b"
	"github.com/rolloutd/rolloutd/internal/driver/e2b/e2btest"
	"github.com/rolloutd/rolloutd/internal/sandbox/sandboxtest"
)

// world is what the tests of this package share: the sandboxd binary.
var world struct{ sandboxd string }

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "sandboxd")
	if err == nil {
		defer os.RemoveAll(dir)

		world.sandboxd, err = sandboxtest.BuildSandboxd(context.Background(), dir)
	}

	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}

	return m.Run()
}

// options returns the options of a driver that uses the service s.
func options(t testing.TB, s *e2btest.Server) e2b.Options {
	t.Helper()

	return e2b.Options{
		Dir:          t.TempDir(),
		SandboxdPath: world.sandboxd,
		Key:          s.Key,
		Template:     e2btest.Template,
		APIURL:       s.URL,
		SandboxURL:   s.URL,
		CreateRate:   1000,
	}
}

func open(t testing.TB, o e2b.Options) *e2b.Driver {
	t.Helper()

	d, err := e2b.New(o)
	require.NoError(t, err)

	return d
}

// The suite passes. Its tests of files and of large outputs do not depend on the driver; ROLLOUTD_REDTEAM
// runs them too.
func TestSuite(t *testing.T) {
	t.Parallel()

	groups := []string{"Lifecycle", "Process", "Exec", "Kill", "Model", "Network", "Ports", "Users", "Limits"}
	if os.Getenv("ROLLOUTD_REDTEAM") != "" {
		groups = nil
	}

	s := e2btest.ForTest(t)
	at, err := e2b.ProgramPath(world.sandboxd)
	require.NoError(t, err)
	require.NoError(t, s.AddProgram(at, world.sandboxd))
	o := options(t, s)
	sandboxtest.Run(t, sandboxtest.Harness{
		Open:   func(t *testing.T) driver.Driver { return open(t, o) },
		Groups: groups,
	})
}
