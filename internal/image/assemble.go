package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// Assembly makes an image of layers that are written one after another, as a build does. No layer of the store is
// removed before it is closed. It is for one goroutine.
type Assembly struct {
	s    *Store
	lock *os.File
	temp string
}

// Assemble begins an Assembly. The caller closes it.
func (s *Store) Assemble(ctx context.Context) (*Assembly, error) {
	held, err := lock(ctx, s.path(storeLock), unix.LOCK_SH)
	if err != nil {
		return nil, err
	}

	temp, err := os.MkdirTemp(s.path(tempDir), "assemble-")
	if err != nil {
		return nil, fault.Wrap(fault.Exhausted, errors.Join(err, held.Close()), "folder of the images")
	}

	return &Assembly{s: s, lock: held, temp: temp}, nil
}

// Close ends the assembly. Layers that belong to no image may be removed from now on.
func (a *Assembly) Close() error {
	err := errors.Join(removeTree(a.temp), a.lock.Close())
	_, collected := a.s.Collect(time.Now())

	return errors.Join(err, collected)
}

// Layer unpacks the tar of a layer and returns its digest.
func (a *Assembly) Layer(ctx context.Context, content io.Reader) (string, error) {
	dir, err := os.MkdirTemp(a.temp, "layer-")
	if err != nil {
		return "", fault.Wrap(fault.Exhausted, err, "unpack layer")
	}

	sum := sha256.New()

	if err := a.s.unpackInto(ctx, io.TeeReader(content, sum), &budget{Limits: a.s.o.Limits}, dir); err != nil {
		return "", err
	}

	id := "sha256:" + hex.EncodeToString(sum.Sum(nil))

	locks, err := a.s.lockLayers(ctx, []string{id})
	defer locks.close()

	if err != nil {
		return "", err
	}

	if a.has(id) {
		return id, nil
	}

	if err := syncAll(dir); err != nil {
		return "", fault.Wrap(fault.Exhausted, err, "write layer")
	}

	// others of this user's group may look at it, as at every layer
	if err := os.Chmod(dir, 0o755); err != nil {
		return "", fault.Wrap(fault.Unavailable, err, "keep layer")
	}

	return id, fault.Wrap(fault.Unavailable, os.Rename(dir, a.s.layerDir(id)), "keep layer")
}

func (a *Assembly) has(id string) bool {
	_, err := os.Stat(a.s.layerDir(id))
	return err == nil
}

// View returns the layers as an image that has no name yet. Its Lock is nil: this assembly holds the layers.
func (a *Assembly) View(layers []string) *Use {
	u := &Use{Image: Image{Layers: layers}}
	for _, l := range layers {
		u.Layers = append(u.Layers, filepath.Join(a.s.layerDir(l), rootDir))
	}

	return u
}

// Owners reports whether the files of layers have the owners that their tar names; else they belong to one user.
func (a *Assembly) Owners() bool { return a.s.ownedBy.root }

// maxStepFile bounds the name of a step's record, which is a digest.
const maxStepFile = 64

// Step returns the digest of the layer that Remember was given for a step; "": the step has no layer. It is
// false where the step is unknown or its layer has been removed.
func (a *Assembly) Step(key string) (layer string, ok bool) {
	var n nameRecord
	if err := readJSON(a.stepFile(key), &n); err != nil {
		return "", false
	}

	return n.ID, n.ID == "" || strings.HasPrefix(n.ID, "sha256:") && a.has(n.ID)
}

// Remember notes the layer of a step under a key, which is a digest in hex of all that the layer depends on.
func (a *Assembly) Remember(key, layer string) error {
	if err := os.MkdirAll(a.s.path(stepsDir), 0o700); err != nil {
		return fault.Wrap(fault.Exhausted, err, "record step")
	}

	return fault.Wrap(fault.Exhausted, a.s.writeJSON(a.stepFile(key), nameRecord{Name: key, ID: layer}), "record step")
}

func (a *Assembly) stepFile(key string) string {
	return a.s.path(stepsDir, filepath.Base(key[:min(len(key), maxStepFile)])+".json")
}

// Finish records the layers as an image with a name.
func (a *Assembly) Finish(config v1.Config, layers []string, name string) (Image, error) {
	full, err := ParseName(name)
	if err != nil {
		return Image{}, err
	}

	if n := len(layers); n > a.s.o.Limits.Layers {
		return Image{}, fault.New(fault.Invalid, "image: must have at most %d layers, got %d", a.s.o.Limits.Layers, n)
	}

	p := platform()

	file := v1.ConfigFile{OS: p.OS, Architecture: p.Architecture, Config: config, RootFS: v1.RootFS{Type: "layers"}}
	for _, l := range layers {
		file.RootFS.DiffIDs = append(file.RootFS.DiffIDs, v1.Hash{
			Algorithm: "sha256", Hex: strings.TrimPrefix(l, "sha256:"),
		})
	}

	data, err := json.Marshal(file)
	if err != nil {
		return Image{}, err
	}

	sum := sha256.Sum256(data)

	record := recordOf(&file, v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum[:])})
	if old, err := a.s.read(record.ID); err == nil {
		return a.s.addNames(old, []string{full})
	}

	if err := a.s.sum(&record); err != nil {
		return record, err
	}

	if err := a.s.writeJSON(a.s.imageFile(record.ID), record); err != nil {
		return record, fault.Wrap(fault.Exhausted, err, "record image")
	}

	a.s.o.Logger.Info("built an image", "image", record.ID, "name", full, "bytes", record.Bytes)

	return a.s.addNames(record, []string{full})
}
