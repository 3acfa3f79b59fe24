package store

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// unfinishedAge is the age of the last write after which an unfinished blob has no writer: longer than any
// pause between two writes.
const unfinishedAge = time.Hour

// Sweep removes the unfinished files of killed writers in a folder, and returns their number. Other stores
// keep no partial blobs.
func (s *Store) Sweep(ctx context.Context) (removed int, err error) {
	if s.folder == "" {
		return 0, nil
	}
	// fileblob's names of unfinished blobs; none of our keys ends so.
	unfinished := regexp.MustCompile(`\.[0-9a-f]+\.tmp$`)
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

func removeOld(path string, e fs.DirEntry) (bool, error) {
	info, err := e.Info()
	if err != nil || time.Since(info.ModTime()) < unfinishedAge {
		return false, err
	}

	err = os.Remove(path)

	return err == nil, err
}
