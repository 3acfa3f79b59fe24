package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// sandboxdEnv is the environment variable with the path of sandboxd.
const sandboxdEnv = "ROLLOUTD_SANDBOXD"

// TestMain builds sandboxd once, for all tests that start the daemon.
func TestMain(m *testing.M) {
	code, err := withSandboxd(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)

		code = 1
	}

	os.Exit(code)
}

func withSandboxd(m *testing.M) (int, error) {
	dir, err := os.MkdirTemp("", "rolloutd-dev-test-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)

	path := filepath.Join(dir, "sandboxd")
	build := exec.Command("go", "build", "-o", path, "./cmd/sandboxd")
	// the module of sandboxd: only its go.mod lists the dependencies of sandboxd
	build.Dir = filepath.Join("..", "..")

	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("build sandboxd: %w\n%s", err, out)
	}

	if err := os.Setenv(sandboxdEnv, path); err != nil {
		return 0, err
	}

	return m.Run(), nil
}
