package sandboxtest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// BuildSandboxd builds the sandboxd of this tree in a folder, and returns its path. It serves TestMain,
// which has no test.
func BuildSandboxd(ctx context.Context, dir string) (string, error) {
	path := filepath.Join(dir, "sandboxd")
	return path, Build(ctx, path, "github.com/rolloutd/rolloutd/cmd/sandboxd")
}

// Build builds a program that needs no C library, as sandboxes run it. It is stripped, and copied to its
// place as the Makefile does it, so that it starts as fast as the one that users have.
func Build(ctx context.Context, path, pkg string) error {
	linked := path + ".linked"
	for _, argv := range [][]string{
		{"go", "build", "-ldflags", "-s -w", "-o", linked, pkg}, {"install", linked, path},
	} {
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)

		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w\n%s", pkg, err, out)
		}
	}

	return os.Remove(linked)
}
