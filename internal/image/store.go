package image

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/clock"
	"github.com/rolloutd/rolloutd/internal/fault"
)

// Options configures a Store. Dir is required.
type Options struct {
	// Dir is the folder of the store. It is created if missing and belongs to one user.
	Dir string
	// MaxBytes bounds the unpacked layers. Beyond it, the least recently used images are surplus; 0: no bound.
	MaxBytes int64
	// MaxAge is the time without use after which an image is surplus; 0: no bound.
	MaxAge time.Duration
	// Limits bounds what one image may unpack to; zero fields take the defaults.
	Limits Limits
	// Registries says how registries are reached.
	Registries Registries
	// Logger reports images that are added and removed; nil is silent.
	Logger *slog.Logger
}

// Store is a folder of images. It is safe for concurrent use, also by several processes.
type Store struct {
	o       Options
	ownedBy owner
}

// Open opens a store, and creates its folder if missing.
func Open(o Options) (*Store, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}

	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "folder of the images")
	}

	o.Dir, o.Limits = dir, o.Limits.withDefaults()

	s := &Store{o: o, ownedBy: owner{root: os.Geteuid() == 0}}
	for _, part := range []string{"", layersDir, imagesDir, namesDir, tempDir, locksDir} {
		if err := os.MkdirAll(s.path(part), 0o700); err != nil {
			return nil, fault.Wrap(fault.Unavailable, err, "folder of the images")
		}
	}

	return s, s.clearTemp()
}

// clearTemp removes temporary files of a crash, unless an image is being added.
func (s *Store) clearTemp() error {
	l, err := tryLock(s.path(storeLock), os.O_RDWR|os.O_CREATE, unix.LOCK_EX)
	if errors.Is(err, errHeld) {
		return nil
	}

	if err != nil {
		return fault.Wrap(fault.Unavailable, err, "lock the images")
	}

	defer l.Close()

	return fault.Wrap(fault.Unavailable, removeChildren(s.path(tempDir)), "clear the folder of the images")
}

// List returns the images, the last used first.
func (s *Store) List() ([]Image, error) {
	entries, err := os.ReadDir(s.path(imagesDir))
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "list images")
	}

	names, err := s.names()
	if err != nil {
		return nil, err
	}

	all := make([]Image, 0, len(entries))
	for _, e := range entries {
		i, err := s.read("sha256:" + strings.TrimSuffix(e.Name(), ".json"))
		if errors.Is(err, fs.ErrNotExist) {
			// removed since
			continue
		}

		if err != nil {
			return nil, fault.Wrap(fault.Internal, err, "record of image %s", e.Name())
		}

		for _, n := range names[i.ID] {
			i.Names, i.Kept = append(i.Names, n.Name), i.Kept || n.Kept
		}

		all = append(all, i)
	}

	slices.SortFunc(all, func(a, b Image) int {
		return cmp.Or(b.UsedAt.Compare(a.UsedAt), strings.Compare(a.ID, b.ID))
	})

	return all, nil
}

// Find returns the image with a name or an id (sha256:…). The error is a fault.NotFound if the store does not have it.
func (s *Store) Find(image string) (Image, error) {
	id, err := s.resolve(image)
	if err != nil {
		return Image{}, err
	}

	i, err := s.read(id)
	if errors.Is(err, fs.ErrNotExist) {
		return i, notHere(image)
	}

	return i, fault.Wrap(fault.Internal, err, "record of image %s", image)
}

// Bytes returns the size of all layers.
func (s *Store) Bytes() (int64, error) {
	entries, err := os.ReadDir(s.path(layersDir))
	if err != nil {
		return 0, fault.Wrap(fault.Unavailable, err, "list layers")
	}

	var sum int64

	for _, e := range entries {
		var l layer
		if err := readJSON(s.path(layersDir, e.Name(), recordFile), &l); err == nil {
			sum += l.Bytes
		}
	}

	return sum, nil
}

func notHere(image string) error {
	return fault.New(fault.NotFound, "image: %q is not on this host", image)
}

// resolve returns the id of the image.
func (s *Store) resolve(image string) (string, error) {
	if id, ok := strings.CutPrefix(image, "sha256:"); ok {
		if data, err := hex.DecodeString(id); err != nil || len(data) != sha256.Size {
			return "", fault.Field("image", "must be sha256: and 64 hex digits, got %q", image)
		}

		return strings.ToLower(image), nil
	}

	full, err := ParseName(image)
	if err != nil {
		return "", err
	}

	var n nameRecord

	err = readJSON(s.nameFile(full), &n)
	if errors.Is(err, fs.ErrNotExist) {
		return "", notHere(image)
	}

	return n.ID, fault.Wrap(fault.Internal, err, "name of image %s", image)
}

// touch sets the time of the image's record, which is the time of its last use, to now.
func (s *Store) touch(id string) error {
	now := time.Now()
	return fault.Wrap(fault.Unavailable, os.Chtimes(s.imageFile(id), now, now), "image %s", id)
}

// read returns the record of the image; a missing one is an fs.ErrNotExist.
func (s *Store) read(id string) (Image, error) {
	var i Image

	path := s.imageFile(id)
	if err := readJSON(path, &i); err != nil {
		return i, err
	}

	st, err := os.Stat(path)
	if err != nil {
		return i, err
	}

	i.UsedAt = st.ModTime()

	return i, nil
}

// names returns the names of the images by their ids.
func (s *Store) names() (map[string][]nameRecord, error) {
	entries, err := os.ReadDir(s.path(namesDir))
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "list names of images")
	}

	all := map[string][]nameRecord{}

	for _, e := range entries {
		var n nameRecord
		if err := readJSON(s.path(namesDir, e.Name()), &n); err == nil {
			all[n.ID] = append(all[n.ID], n)
		}
	}

	for _, list := range all {
		slices.SortFunc(list, func(a, b nameRecord) int { return strings.Compare(a.Name, b.Name) })
	}

	return all, nil
}

// setName gives an image a name. A name that is kept stays kept when it moves to another image.
func (s *Store) setName(full, id string) error {
	var old nameRecord
	if err := readJSON(s.nameFile(full), &old); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}

	return s.writeJSON(s.nameFile(full), nameRecord{Name: full, ID: id, Kept: old.Kept})
}

func (s *Store) nameFile(full string) string {
	sum := sha256.Sum256([]byte(full))
	return s.path(namesDir, hex.EncodeToString(sum[:])+".json")
}

func (s *Store) imageFile(id string) string {
	return s.path(imagesDir, strings.TrimPrefix(id, "sha256:")+".json")
}

func (s *Store) layerDir(diffID string) string {
	return s.path(layersDir, strings.TrimPrefix(diffID, "sha256:"))
}

// A Use keeps an image on the host.
type Use struct {
	Image Image
	// Layers are the folders of its layers, the lowest first.
	Layers []string
	// Lock holds the image until its last copy is closed; a process may inherit it.
	Lock *os.File
}

// Use finds an image, sets the time of its last use, and holds it. The caller closes Lock.
func (s *Store) Use(ctx context.Context, image string) (*Use, error) {
	for {
		u, err := s.use(image)
		if !errors.Is(err, errHeld) {
			return u, err
		}
		// another process is removing it, or checks whether it may
		if err := clock.Sleep(ctx, lockStep); err != nil {
			return nil, fault.Wrap(fault.Unavailable, err, "wait for image %s", image)
		}
	}
}

func (s *Store) use(image string) (*Use, error) {
	id, err := s.resolve(image)
	if err != nil {
		return nil, err
	}

	path := s.imageFile(id)

	held, err := tryLock(path, os.O_RDONLY, unix.LOCK_SH)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, notHere(image)
	}

	if err != nil {
		return nil, err
	}

	u := &Use{Lock: held}
	if err := readJSON(path, &u.Image); err != nil {
		return nil, errors.Join(notHere(image), held.Close())
	}

	u.Image.UsedAt = time.Now()

	if err := s.touch(id); err != nil {
		return nil, errors.Join(err, held.Close())
	}

	for _, l := range u.Image.Layers {
		u.Layers = append(u.Layers, filepath.Join(s.layerDir(l), rootDir))
	}

	return u, nil
}
