package agenttest

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/rolloutd/rolloutd/internal/sandbox/sandboxtest"
)

// Main builds sandboxd, sets path to it, runs the tests of the package, and returns the exit status.
func Main(m *testing.M, path *string) int {
	dir, err := os.MkdirTemp("", "sandboxd")
	if err == nil {
		defer func() { _ = os.RemoveAll(dir) }()

		*path, err = buildSandboxd(dir)
	}

	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}

	return m.Run()
}

// buildSandboxd builds sandboxd into dir, which it makes readable for every user, and returns its path.
func buildSandboxd(dir string) (string, error) {
	// sandboxes run as other users
	if err := os.Chmod(dir, 0o755); err != nil {
		return "", err
	}

	return sandboxtest.BuildSandboxd(context.Background(), dir)
}
