package driver

import (
	"errors"
	"os"
	"path/filepath"
)

// PrivateDir makes the folder dir, closed to all but its owner, and returns its absolute path. A driver keeps control sockets there, and a
// process that reaches one commands the sandbox.
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
