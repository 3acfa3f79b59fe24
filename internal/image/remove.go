package image

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// Remove removes the name of an image. It removes the image with its last name, or at once if image is its
// id. The error is a fault.Conflict if a sandbox uses the image.
func (s *Store) Remove(ctx context.Context, image string) error {
	l, err := lock(ctx, s.path(storeLock), unix.LOCK_EX)
	if err != nil {
		return err
	}
	defer l.Close()

	found, err := s.Find(image)
	if err != nil {
		return err
	}

	names, err := s.names()
	if err != nil {
		return err
	}

	full, err := ParseName(image)
	if image != found.ID && err == nil && len(names[found.ID]) > 1 {
		return fault.Wrap(fault.Unavailable, os.Remove(s.nameFile(full)), "remove the name %s", full)
	}

	err = s.removeUnused(found.ID)
	if errors.Is(err, errHeld) {
		return fault.New(fault.Conflict, "image %s is used by a sandbox", image)
	}

	return errors.Join(err, s.sweepLayers())
}

// removeUnused removes the record and the names of an image that no sandbox uses, else it returns errHeld. The
// caller holds the store's lock.
func (s *Store) removeUnused(id string) error {
	held, err := tryLock(s.imageFile(id), os.O_RDONLY, unix.LOCK_EX)
	if err != nil {
		return err
	}
	defer held.Close()

	names, err := s.names()
	for _, n := range names[id] {
		err = errors.Join(err, ignoreMissing(os.Remove(s.nameFile(n.Name))))
	}

	return fault.Wrap(fault.Unavailable, errors.Join(err, ignoreMissing(os.Remove(s.imageFile(id)))), "remove image %s",
		id)
}

// sweepLayers removes layers that belong to no image. The caller holds the store's lock.
func (s *Store) sweepLayers() error {
	images, err := s.List()
	if err != nil {
		return err
	}

	used := map[string]bool{}

	for _, i := range images {
		for _, l := range i.Layers {
			used[s.layerDir(l)] = true
		}
	}

	entries, err := os.ReadDir(s.path(layersDir))
	for _, e := range entries {
		dir := s.path(layersDir, e.Name())
		if used[dir] {
			continue
		}

		gone := s.path(tempDir, "gone-"+e.Name())
		// Renamed first, so that a crash leaves no partial layer under its name.
		if e := os.Rename(dir, gone); e != nil {
			err = errors.Join(err, e)
			continue
		}

		err = errors.Join(err, removeTree(gone))
	}

	return fault.Wrap(fault.Unavailable, err, "remove layers")
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}

	return err
}

func removeChildren(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		err = errors.Join(err, removeTree(filepath.Join(dir, e.Name())))
	}

	return err
}

// removeTree removes a folder whose owner may have no right to write into parts of it.
func removeTree(dir string) error {
	err := os.RemoveAll(dir)
	if err == nil || !errors.Is(err, fs.ErrPermission) {
		return err
	}

	root, err := openOwn(dir)
	if err != nil {
		return err
	}
	defer root.Close()

	_ = fs.WalkDir(root.FS(), ".", func(path string, e fs.DirEntry, _ error) error {
		if e != nil && e.IsDir() {
			_ = root.Chmod(path, 0o700)
		}

		return nil
	})

	return os.RemoveAll(dir)
}

// openOwn opens a folder of this user with any mode.
func openOwn(dir string) (*os.Root, error) {
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, err
	}

	return os.OpenRoot(dir)
}
