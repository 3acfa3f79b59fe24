package driver

import (
	"errors"
	"os"
	"path/filepath"
)

// PrivateDir makes a folder that only its owner can enter, and returns its absolute path. Drivers keep
// control sockets there: a process that reaches one controls the sandbox.
func PrivateDir(dir string) (string, error) {
	if dir == "" {
		return "", errors.New("not named")
	}

	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}

	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}

	return dir, os.Chmod(dir, 0o700)
}
