package image

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// Pin keeps the image of a name from being surplus, or ends that. The name stays kept when it is pulled or built
// again.
func (s *Store) Pin(ctx context.Context, image string, on bool) error {
	l, err := lock(ctx, s.path(storeLock), unix.LOCK_EX)
	if err != nil {
		return err
	}
	defer l.Close()

	full, err := ParseName(image)
	if err != nil {
		return err
	}

	found, err := s.Find(full)
	if err != nil {
		return err
	}

	return fault.Wrap(fault.Exhausted, s.writeJSON(s.nameFile(full), nameRecord{Name: full, ID: found.ID, Kept: on}),
		"keep image %s",
		full)
}

// Surplus returns the images that Collect removes, the least recently used first: those without use for the greatest
// age, and as many more as the bound of bytes asks for. An image that a sandbox uses, or that is kept, is none. The
// image that was used last is none for its size.
func (s *Store) Surplus(now time.Time) ([]Image, error) {
	images, err := s.List()
	if err != nil {
		return nil, err
	}

	l := s.layers(images)

	var surplus []Image

	for i := len(images) - 1; i >= 0; i-- {
		old := s.o.MaxAge > 0 && now.Sub(images[i].UsedAt) > s.o.MaxAge
		large := s.o.MaxBytes > 0 && l.total > s.o.MaxBytes && i > 0

		if images[i].Kept || !old && !large {
			continue
		}

		held, err := s.inUse(images[i].ID)
		if err != nil {
			return nil, err
		}

		if !held {
			surplus = append(surplus, images[i])
			l.without(images[i])
		}
	}

	return surplus, nil
}

// inUse reports whether a sandbox uses the image, or another process removes it.
func (s *Store) inUse(id string) (bool, error) {
	l, err := tryLock(s.imageFile(id), os.O_RDONLY, unix.LOCK_EX)
	if errors.Is(err, errHeld) || errors.Is(err, os.ErrNotExist) {
		return true, nil
	}

	if err != nil {
		return false, fault.Wrap(fault.Unavailable, err, "lock image %s", id)
	}

	return false, fault.Wrap(fault.Unavailable, l.Close(), "unlock image %s", id)
}

// layers are the sizes of layers, and how many images have each.
type layers struct {
	bytes map[string]int64
	users map[string]int

	// bytes of all
	total int64
}

// layers reads the layers of images.
func (s *Store) layers(images []Image) *layers {
	l := &layers{bytes: map[string]int64{}, users: map[string]int{}}

	for _, i := range images {
		for _, digest := range i.Layers {
			if l.users[digest]++; l.users[digest] > 1 {
				continue
			}

			// a layer that is missing takes no room
			var record layer
			if err := readJSON(filepath.Join(s.layerDir(digest), recordFile), &record); err == nil {
				l.bytes[digest] = record.Bytes
				l.total += record.Bytes
			}
		}
	}

	return l
}

// without takes out the layers that only this image had.
func (l *layers) without(i Image) {
	for _, digest := range i.Layers {
		if l.users[digest]--; l.users[digest] == 0 {
			l.total -= l.bytes[digest]
		}
	}
}

// Collect removes the surplus images and returns their ids. With them, or above the bound of bytes, go the layers of no
// image, such as those of a build's steps. While an image is being added it does nothing.
func (s *Store) Collect(now time.Time) (removed []string, err error) {
	l, err := tryLock(s.path(storeLock), os.O_RDWR|os.O_CREATE, unix.LOCK_EX)
	if errors.Is(err, errHeld) {
		return nil, nil
	}

	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "lock the images")
	}

	defer l.Close()

	sum, err := s.Bytes()
	if err != nil {
		return nil, err
	}

	surplus, err := s.Surplus(now)
	if err != nil || len(surplus) == 0 && (s.o.MaxBytes == 0 || sum <= s.o.MaxBytes) {
		return nil, err
	}

	for _, i := range surplus {
		err := s.removeUnused(i.ID)
		if errors.Is(err, errHeld) {
			continue
		}

		if err != nil {
			return removed, errors.Join(err, s.sweepLayers())
		}

		s.o.Logger.Info("removed a surplus image", "image", i.ID, "names", i.Names, "last used", i.UsedAt)
		removed = append(removed, i.ID)
	}

	return removed, s.sweepLayers()
}
