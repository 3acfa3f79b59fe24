package agenttest

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/rolloutd/rolloutd/internal/sandbox/sandboxtest"
)

// Main runs the tests of a package with a sandboxd built for it, whose path it puts into path, and returns the status to exit with.
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

// buildSandboxd builds sandboxd into a folder that every user may enter, and returns its path.
func buildSandboxd(dir string) (string, error) {
	if err := os.Chmod(dir, 0o755); err != nil { // sandboxes run as other users
		return "", err
	}
	return sandboxtest.BuildSandboxd(context.Background(), dir)
}
