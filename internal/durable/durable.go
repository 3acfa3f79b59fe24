// Package durable makes changes of files outlive a crash of the process and of the machine.
package durable

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Replace writes a file in one step: a crash leaves the old one or the new one, and once it has returned,
// the new one. Only the owner may read it. What a crash leaves besides has a name that begins with a dot,
// and is removed by Read.
func Replace(path string, data []byte) error {
	folder := filepath.Dir(path)

	tmp, err := os.CreateTemp(folder, "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	// does nothing after the rename
	defer os.Remove(tmp.Name())

	_, err = tmp.Write(data)
	if err = errors.Join(err, tmp.Sync(), tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), path)
	}

	if err != nil {
		return err
	}

	return SyncFolder(folder)
}

// Read reads a file that Replace writes, and removes what killed writers left beside it. No Replace of the
// file may run meanwhile, in any process. A missing file is os.ErrNotExist.
func Read(path string) ([]byte, error) {
	folder, prefix := filepath.Dir(path), "."+filepath.Base(path)+"-"

	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}

	for _, e := range entries {
		random, temporary := strings.CutPrefix(e.Name(), prefix)
		if _, err := strconv.ParseUint(random, 10, 64); !temporary || err != nil {
			continue
		}

		if err := os.Remove(filepath.Join(folder, e.Name())); err != nil {
			return nil, err
		}
	}

	return os.ReadFile(path)
}

// SyncFolder makes the names in a folder durable.
func SyncFolder(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}

	return errors.Join(d.Sync(), d.Close())
}
