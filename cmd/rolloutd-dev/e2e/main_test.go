// Package e2e tests the built binaries as a user runs them: with a real Temporal server, real sandboxes and
// the real OpenCode binary. Only the model is scripted.
package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// bin is the folder of the binaries under test. agents is a folder of installed agents that all tests of
// this user share, so that OpenCode is downloaded once.
var bin, agents string

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "rolloutd-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)

	bin = dir

	if agents, err = agentsFolder(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}

	for _, b := range []struct{ name, module, pkg string }{
		{"sandboxd", "../../..", "./cmd/sandboxd"},
		{"rolloutd", "../../..", "./cmd/rolloutd"},
		{"rolloutd-dev", "..", "."},
	} {
		// without symbols, which take half of the time to link
		cmd := exec.Command("go", "build", "-ldflags", "-s -w", "-o", filepath.Join(bin, b.name), b.pkg)
		cmd.Dir = b.module

		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build %s: %v\n%s", b.name, err, out)
			return 1
		}
	}

	return m.Run()
}

// agentsFolder returns the folder in which the tests cache agent binaries.
func agentsFolder() (string, error) {
	if dir := os.Getenv("ROLLOUTD_TEST_AGENTS"); dir != "" {
		return dir, nil
	}

	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cache folder: %w", err)
	}

	dir := filepath.Join(cache, "rolloutd-test", "agents")

	return dir, os.MkdirAll(dir, 0o755)
}
