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

	err = s.drop(found.ID, names[found.ID])
	if errors.Is(err, errHeld) {
		return fault.New(fault.Conflict, "image %s is used by a sandbox", image)
	}

	return errors.Join(err, s.sweepLayers())
}

// Collect removes images until the layers fit the bound of the store, the least recently used first, and
// returns their ids. It keeps images that sandboxes use. While an image is being added it does nothing.
func (s *Store) Collect() (removed []string, err error) {
	if s.o.MaxBytes == 0 {
		return nil, nil
	}

	l, err := tryLock(s.path(storeLock), os.O_RDWR|os.O_CREATE, unix.LOCK_EX)
	if errors.Is(err, errHeld) {
		return nil, nil
	}

	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "lock the images")
	}

	defer l.Close()

	images, err := s.List()
	if err != nil {
		return nil, err
	}
	// the most recently used image stays, even if it is too large
	for i := len(images) - 1; i > 0; i-- {
		sum, err := s.Bytes()
		if err != nil || sum <= s.o.MaxBytes {
			return removed, err
		}

		err = s.drop(images[i].ID, images[i].Names)
		if errors.Is(err, errHeld) {
			continue
		}

		if err := errors.Join(err, s.sweepLayers()); err != nil {
			return removed, err
		}

		s.o.Logger.Info("removed an image to make room", "image", images[i].ID, "names", images[i].Names)
		removed = append(removed, images[i].ID)
	}

	return removed, nil
}

// drop removes the record and the names of an image that no sandbox uses, else it returns errHeld. The
// caller holds the store's lock.
func (s *Store) drop(id string, names []string) error {
	held, err := tryLock(s.imageFile(id), os.O_RDONLY, unix.LOCK_EX)
	if err != nil {
		return err
	}
	defer held.Close()

	for _, full := range names {
		err = errors.Join(err, ignoreMissing(os.Remove(s.nameFile(full))))
	}

	return fault.Wrap(
		fault.Unavailable,
		errors.Join(err, ignoreMissing(os.Remove(s.imageFile(id)))),
		"remove image %s",
		id,
	)
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
