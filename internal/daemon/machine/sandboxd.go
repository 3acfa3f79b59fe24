package machine

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/rolloutd/rolloutd/internal/config"
)

// FindSandboxd returns the path of sandboxd: the configured one, beside this binary, in the data folder, or in PATH.
func FindSandboxd(c config.Config) (string, error) {
	if c.Sandbox.Sandboxd != "" {
		if err := isFile(c.Sandbox.Sandboxd); err != nil {
			return "", fmt.Errorf("sandbox.sandboxd (ROLLOUTD_SANDBOXD): %w", err)
		}

		return c.Sandbox.Sandboxd, nil
	}

	dirs := []string{c.BinDir()}
	if self, err := os.Executable(); err == nil {
		dirs = append([]string{filepath.Dir(self)}, dirs...)
	}

	for _, dir := range dirs {
		if path := filepath.Join(dir, "sandboxd"); isFile(path) == nil {
			return filepath.Abs(path)
		}
	}

	if path, err := exec.LookPath("sandboxd"); err == nil {
		return path, nil
	}

	return "", fmt.Errorf(
		"sandboxd is not in %v or PATH: build it (CGO_ENABLED=0 go build ./cmd/sandboxd) and put it there, "+
			"or say where it is with ROLLOUTD_SANDBOXD",
		dirs,
	)
}

func isFile(path string) error {
	info, err := os.Stat(path)
	if err == nil && info.IsDir() {
		err = fmt.Errorf("%s is a folder", path)
	}

	return err
}
