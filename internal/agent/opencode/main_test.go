package opencode_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/sandbox"
	"github.com/rolloutd/rolloutd/internal/sandbox/local"
)

// sandboxdPath is built once for the package.
var sandboxdPath string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if dir := os.Getenv(gatewayFolder); dir != "" {
		if err := gatewayProcess(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	}
	dir, err := os.MkdirTemp("", "sandboxd")
	if err == nil {
		defer func() { _ = os.RemoveAll(dir) }()
		err = os.Chmod(dir, 0o755) // sandboxes run as other users
	}
	if err == nil {
		sandboxdPath = filepath.Join(dir, "sandboxd")
		err = buildSandboxd()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

func buildSandboxd() error {
	cmd := exec.CommandContext(context.Background(), "go", "build", "-o", sandboxdPath, "github.com/rolloutd/rolloutd/cmd/sandboxd")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build sandboxd: %w\n%s", err, out)
	}
	return nil
}

func newBackend(t *testing.T, agents string) *sandbox.Backend {
	t.Helper()
	d, err := local.New(local.Options{Dir: t.TempDir(), AgentsDir: agents, SandboxdPath: sandboxdPath})
	require.NoError(t, err)
	return sandbox.New(d, sandbox.Options{})
}
