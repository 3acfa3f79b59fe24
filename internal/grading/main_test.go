package grading_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// sandboxdEnv names a built sandboxd, for the suite that runs again as an ordinary user.
const sandboxdEnv = "ROLLOUTD_TEST_SANDBOXD"

// sandboxdPath is the binary that the sandboxes run, built once for the package.
var sandboxdPath string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if sandboxdPath = os.Getenv(sandboxdEnv); sandboxdPath != "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "sandboxd")
	if err == nil {
		defer os.RemoveAll(dir)
		sandboxdPath = filepath.Join(dir, "sandboxd")
		err = build(sandboxdPath)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

func build(path string) error {
	cmd := exec.CommandContext(context.Background(), "go", "build", "-o", path, "github.com/rolloutd/rolloutd/cmd/sandboxd")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build sandboxd: %w\n%s", err, out)
	}
	return nil
}
