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

// unfinishedAge is how old the last write to an unfinished blob is once its writer is gone: longer than any writer may take between two
// writes.
const unfinishedAge = time.Hour

// Sweep removes what writers that were killed left half-written in a folder, and tells how many there were. Other stores keep
// no half of a blob.
func (s *Store) Sweep(ctx context.Context) (removed int, err error) {
	if s.folder == "" {
		return 0, nil
	}
	// How fileblob names a blob until it is whole; no key of ours ends so.
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
			err = nil // its writer was quicker
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
