package grading_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/rolloutd/rolloutd/internal/sandbox/sandboxtest"
)

// sandboxdEnv is the environment variable with the path of a built sandboxd, for the suite that runs again
// as an ordinary user.
const sandboxdEnv = "ROLLOUTD_TEST_SANDBOXD"

// sandboxdPath is the path of sandboxd, which is built once for the package.
var sandboxdPath string

func TestMain(m *testing.M) { os.Exit(run(m)) }

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
