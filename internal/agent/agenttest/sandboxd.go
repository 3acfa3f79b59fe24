package agenttest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// BuildSandboxd builds sandboxd into a folder that every user may enter, and returns its path.
func BuildSandboxd(dir string) (string, error) {
	if err := os.Chmod(dir, 0o755); err != nil { // sandboxes run as other users
		return "", err
	}
	path := filepath.Join(dir, "sandboxd")
	cmd := exec.CommandContext(context.Background(), "go", "build", "-o", path, "github.com/rolloutd/rolloutd/cmd/sandboxd")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build sandboxd: %w\n%s", err, out)
	}
	return path, nil
}
