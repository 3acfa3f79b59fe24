package driver

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const ownerFile = "owner"

// Owner reads the name of the owner of a data folder in dir, or makes one. It identifies a sandbox's host
// at a provider that several hosts use. If several processes make one, the first wins.
func Owner(dir string) (string, error) {
	path := filepath.Join(dir, ownerFile)

	temp, err := os.CreateTemp(dir, "new-")
	if err != nil {
		return "", err
	}
	defer os.Remove(temp.Name())

	_, err = temp.WriteString(strings.ToLower(rand.Text()[:12]))
	if err = errors.Join(err, temp.Sync(), temp.Close()); err != nil {
		return "", err
	}

	if err := os.Link(temp.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}

	data, err := os.ReadFile(path)

	return string(data), err
}
