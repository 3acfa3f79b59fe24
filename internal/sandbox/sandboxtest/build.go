package sandboxtest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// BuildSandboxd builds the sandboxd of this tree in a folder, and returns its path. It serves TestMain, which has no test.
func BuildSandboxd(ctx context.Context, dir string) (string, error) {
	path := filepath.Join(dir, "sandboxd")
	return path, Build(ctx, path, "github.com/rolloutd/rolloutd/cmd/sandboxd")
}

// Build builds a program that needs no C library, as sandboxes run it.
func Build(ctx context.Context, path, pkg string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-o", path, pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", pkg, err, out)
	}
	return nil
}
