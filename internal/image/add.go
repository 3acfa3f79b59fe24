package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// layersAtOnce is how many layers of an image are read at once.
const layersAtOnce = 3

// Import adds the image at path under a name: the folder of a root file system, an OCI layout folder, an
// archive of docker save, or a tar file of an OCI layout.
func (s *Store) Import(ctx context.Context, path, image string) (Image, error) {
	full, err := ParseName(image)
	if err != nil {
		return Image{}, err
	}

	return s.adding(ctx, func(temp string) (Image, error) {
		img, err := s.openPath(ctx, path, temp)
		if err != nil {
			return Image{}, err
		}

		return s.addImage(ctx, func() {}, img, temp, full)
	})
}

// adding calls do with a folder for unpacked layers. No layer is removed meanwhile.
func (s *Store) adding(ctx context.Context, do func(temp string) (Image, error)) (Image, error) {
	l, err := lock(ctx, s.path(storeLock), unix.LOCK_SH)
	if err != nil {
		return Image{}, err
	}
	defer l.Close()

	temp, err := os.MkdirTemp(s.path(tempDir), "add-")
	if err != nil {
		return Image{}, fault.Wrap(fault.Exhausted, err, "folder of the images")
	}

	defer func() { _ = removeTree(temp) }()

	added, err := do(temp)
	if err != nil {
		return added, err
	}

	_ = l.Close()
	_, err = s.Collect(time.Now())

	return added, err
}

// addImage unpacks the layers that the store does not have, and records the image under its names. stop cancels
// the reads of img; add calls it when a layer has failed.
func (s *Store) addImage(ctx context.Context, stop func(), img v1.Image, temp string, names ...string) (Image, error) {
	record, layers, err := s.describe(img)
	if err != nil {
		return record, err
	}

	if old, err := s.read(record.ID); err == nil {
		return s.addNames(old, names)
	}

	locks, err := s.lockLayers(ctx, record.Layers)
	defer locks.close()

	if err != nil {
		return record, err
	}
	// Another process may have added the image during the wait, and a sandbox may hold its record: a new
	// record would not be held.
	if old, err := s.read(record.ID); err == nil {
		return s.addNames(old, names)
	}

	if err := s.unpackAll(ctx, stop, record.Layers, layers, temp); err != nil {
		return record, err
	}

	if err := s.sum(&record); err != nil {
		return record, err
	}

	if err := s.writeJSON(s.imageFile(record.ID), record); err != nil {
		return record, fault.Wrap(fault.Exhausted, err, "record image")
	}

	s.o.Logger.Info("added an image", "image", record.ID, "names", names, "bytes", record.Bytes)

	return s.addNames(record, names)
}

// addNames gives a recorded image further names, and notes that it was used now.
func (s *Store) addNames(i Image, names []string) (Image, error) {
	for _, full := range names {
		if err := s.setName(full, i.ID); err != nil {
			return i, fault.Wrap(fault.Exhausted, err, "record the name %s", full)
		}
	}

	return i, s.touch(i.ID)
}

// describe reads the configuration of an image and checks that it can run here.
func (s *Store) describe(img v1.Image) (Image, []v1.Layer, error) {
	config, err := img.ConfigFile()
	if err != nil {
		return Image{}, nil, invalid(err, "configuration")
	}

	if n := len(config.RootFS.DiffIDs); n > s.o.Limits.Layers {
		return Image{}, nil, fault.New(fault.Invalid, "image: must have at most %d layers, got %d",
			s.o.Limits.Layers, n)
	}

	id, err := img.ConfigName()
	if err != nil {
		return Image{}, nil, invalid(err, "configuration")
	}

	layers, err := img.Layers()
	if err != nil || len(layers) != len(config.RootFS.DiffIDs) {
		return Image{}, nil, invalid(
			errors.Join(
				err,
				fmt.Errorf("it has %d layers, but digests for %d", len(layers), len(config.RootFS.DiffIDs)),
			),
			"layers",
		)
	}

	record := recordOf(config, id)
	for _, d := range config.RootFS.DiffIDs {
		if data, err := hex.DecodeString(d.Hex); d.Algorithm != "sha256" || err != nil || len(data) != sha256.Size {
			return record, nil, fault.New(fault.Invalid,
				"image: the digest of a layer must be sha256: and 64 hex digits, got %q",
				d)
		}
	}

	if p := platform(); record.Arch != "" && record.Arch != p.Architecture || record.OS != "" && record.OS != p.OS {
		return record, nil, wrongPlatform([]string{record.OS + "/" + record.Arch})
	}

	return record, layers, nil
}

// invalid wraps an error of a broken image in its kind; an error of the registry has a kind already.
func invalid(err error, part string) error {
	if fault.KindOf(err) != fault.Internal {
		return err
	}

	return fault.Wrap(fault.Invalid, registryError(err), "image: %s", part)
}

// unpackAll unpacks the layers into temp and moves them into the store when all are on the disk.
func (s *Store) unpackAll(ctx context.Context, stop func(), ids []string, layers []v1.Layer, temp string) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(layersAtOnce)
	context.AfterFunc(ctx, stop)

	var fresh []string

	shared := &budget{Limits: s.o.Limits}
	for n, id := range ids {
		if _, err := os.Stat(s.layerDir(id)); err == nil || slices.Contains(fresh, id) {
			continue
		}

		fresh = append(fresh, id)

		g.Go(func() error {
			return s.unpackLayer(ctx, layers[n], id, shared, filepath.Join(temp, filepath.Base(s.layerDir(id))))
		})
	}

	if err := g.Wait(); err != nil || len(fresh) == 0 {
		return err
	}

	if err := syncAll(temp); err != nil {
		return fault.Wrap(fault.Exhausted, err, "write layers")
	}

	for _, id := range fresh {
		dir := s.layerDir(id)
		if err := os.Rename(filepath.Join(temp, filepath.Base(dir)), dir); err != nil {
			return fault.Wrap(fault.Unavailable, err, "keep layer")
		}
	}

	return nil
}

// syncAll syncs the file system of dir to the disk.
func syncAll(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()

	return unix.Syncfs(int(f.Fd()))
}

// unpackLayer unpacks one layer into the new folder dir, and checks its digest.
func (s *Store) unpackLayer(ctx context.Context, l v1.Layer, id string, b *budget, dir string) error {
	content, err := l.Uncompressed()
	if err != nil {
		return readError(registryError(err))
	}
	defer content.Close()

	sum := sha256.New()
	if err := s.unpackInto(ctx, io.TeeReader(content, sum), b, dir); err != nil {
		return err
	}

	if got := "sha256:" + hex.EncodeToString(sum.Sum(nil)); got != id {
		return fault.New(fault.Invalid, "image: a layer has the digest %s, but the configuration has %s", got, id)
	}

	return nil
}

// unpackInto unpacks the tar of a layer to its end into the folder dir, and records its size there.
func (s *Store) unpackInto(ctx context.Context, content io.Reader, b *budget, dir string) error {
	if err := os.MkdirAll(filepath.Join(dir, rootDir), 0o755); err != nil {
		return fault.Wrap(fault.Exhausted, err, "unpack layer")
	}

	root, err := os.OpenRoot(filepath.Join(dir, rootDir))
	if err != nil {
		return fault.Wrap(fault.Unavailable, err, "unpack layer")
	}
	defer root.Close()

	bounded := &boundedReader{
		r:         until(ctx, content),
		remaining: s.o.Limits.Bytes + int64(s.o.Limits.Entries)*tarOverhead,
	}

	written, err := unpack(ctx, bounded, root, s.ownedBy, b)
	if err != nil {
		return errors.Join(err, ctx.Err())
	}
	// padding after the last entry belongs to the digest
	if _, err := io.Copy(io.Discard, bounded); err != nil {
		return readError(registryError(err))
	}

	return fault.Wrap(fault.Exhausted, s.writeJSON(filepath.Join(dir, recordFile), written), "record layer")
}

// until reads from r until ctx ends. It checks ctx between two reads: closing r during a read would be a race.
func until(ctx context.Context, r io.Reader) io.Reader {
	return readerFunc(func(p []byte) (int, error) {
		if err := ctx.Err(); err != nil {
			return 0, err
		}

		return r.Read(p)
	})
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// tarOverhead is the size of an entry in a tar file without its content, in bytes.
const tarOverhead = 4096

// boundedReader fails past a number of bytes: a small compressed layer may hold endless zeros.
type boundedReader struct {
	r         io.Reader
	remaining int64
}

func (b *boundedReader) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if b.remaining -= int64(n); b.remaining < 0 {
		return n, fault.New(fault.Invalid, "image: a layer has more bytes than the limit of its files allows")
	}

	return n, err
}

// sum adds up the sizes of the layers of an image, and refuses an image beyond the limits.
func (s *Store) sum(i *Image) error {
	for _, id := range i.Layers {
		var l layer
		if err := readJSON(filepath.Join(s.layerDir(id), recordFile), &l); err != nil {
			return fault.Wrap(fault.Internal, err, "record of layer %s", id)
		}

		i.Bytes += l.Bytes
		i.Entries += l.Entries
	}

	if i.Bytes > s.o.Limits.Bytes || i.Entries > s.o.Limits.Entries {
		return fault.New(fault.Invalid, "image: must have at most %d bytes in %d entries, got %d bytes in %d entries",
			s.o.Limits.Bytes, s.o.Limits.Entries, i.Bytes, i.Entries)
	}

	return nil
}

// layerLocks holds the locks of layers that are being unpacked.
type layerLocks []*os.File

// lockLayers waits until no other process unpacks one of the layers. The order of the digests prevents a deadlock.
func (s *Store) lockLayers(ctx context.Context, ids []string) (layerLocks, error) {
	var locks layerLocks

	sorted := slices.Sorted(slices.Values(ids))
	for _, id := range slices.Compact(sorted) {
		f, err := lock(ctx, s.path(locksDir, filepath.Base(s.layerDir(id))), unix.LOCK_EX)
		if err != nil {
			return locks, err
		}

		locks = append(locks, f)
	}

	return locks, nil
}

func (l layerLocks) close() {
	for _, f := range l {
		_ = f.Close()
	}
}
