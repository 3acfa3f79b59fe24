package store

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// unfinishedAge is the age of the last write after which an unfinished blob has no writer: longer than any
// pause between two writes.
const unfinishedAge = time.Hour

// unfinished are fileblob's names of unfinished blobs; none of our keys ends so.
var unfinished = regexp.MustCompile(`\.[0-9a-f]+\.tmp$`)

// Sweep removes the unfinished files of killed writers in a folder, and returns their number. Other stores
// keep no partial blobs.
func (s *Store) Sweep(ctx context.Context) (removed int, err error) {
	if s.folder == "" {
		return 0, nil
	}

	err = filepath.WalkDir(s.folder, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() && unfinished.MatchString(path) {
			var gone bool

			gone, err = removeOld(path, e)
			if gone {
				removed++
			}
		}

		if errors.Is(err, os.ErrNotExist) {
			// its writer was faster
			err = nil
		}

		return errors.Join(err, ctx.Err())
	})

	return removed, fault.Wrap(fault.Unavailable, err, "sweep store %q", s.folder)
}

// RemoveFolders removes the empty folders of keys with the prefix, which a store in a folder has after its blobs are
// deleted. A folder that a writer fills meanwhile stays.
func (s *Store) RemoveFolders(prefix string) error {
	if s.folder == "" {
		return nil
	}

	root, err := os.OpenRoot(s.folder)
	if err != nil {
		return fault.Wrap(fault.Unavailable, err, "open store %q", s.folder)
	}
	defer root.Close()

	var folders []string

	err = fs.WalkDir(root.FS(), strings.TrimSuffix(prefix, "/"), func(name string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			folders = append(folders, name)
		}

		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}

	// the inner ones first
	for _, name := range slices.Backward(folders) {
		if removed := root.Remove(name); removed != nil && !errors.Is(removed, unix.ENOTEMPTY) {
			err = errors.Join(err, removed)
		}
	}

	return fault.Wrap(fault.Unavailable, err, "remove the empty folders of %q", prefix)
}

func removeOld(path string, e fs.DirEntry) (bool, error) {
	info, err := e.Info()
	if err != nil || time.Since(info.ModTime()) < unfinishedAge {
		return false, err
	}

	err = os.Remove(path)

	return err == nil, err
}
