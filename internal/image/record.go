package image

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Image is the record of an image in the store.
type Image struct {
	// digest of its configuration, sha256:…
	ID string `json:"id"`

	// digests of the uncompressed layers, the lowest first
	Layers []string `json:"layers"`

	// size of all its files, unpacked
	Bytes   int64  `json:"bytes"`
	Entries int    `json:"entries"`
	OS      string `json:"os,omitempty"`
	Arch    string `json:"arch,omitempty"`
	// Env, User and Workdir are those of its configuration.
	Env     []string `json:"env,omitempty"`
	User    string   `json:"user,omitempty"`
	Workdir string   `json:"workdir,omitempty"`
	// Entrypoint and Cmd are the program that a service of the image runs.
	Entrypoint []string `json:"entrypoint,omitempty"`
	Cmd        []string `json:"cmd,omitempty"`

	// by which the store finds it
	Names []string `json:"-"`

	// one of its names is kept: see Store.Keep
	Kept bool `json:"-"`

	// when a sandbox last used it, or when it was added
	UsedAt time.Time `json:"-"`
}

// layer is the record of a layer in the store.
type layer struct {
	Bytes   int64 `json:"bytes"`
	Entries int   `json:"entries"`
}

// nameRecord is a name of an image.
type nameRecord struct {
	Name string `json:"name"`
	ID   string `json:"id"`

	// see Store.Keep
	Kept bool `json:"kept,omitempty"`
}

// Folders and files of a store.
const (
	layersDir = "layers"
	imagesDir = "images"
	namesDir  = "names"
	tempDir   = "tmp"
	locksDir  = "locks"
	stepsDir  = "steps"
	storeLock = "lock"

	// the root folder of a layer, and its record
	rootDir    = "root"
	recordFile = "layer.json"
)

func recordOf(config *v1.ConfigFile, id v1.Hash) Image {
	i := Image{
		ID: id.String(), OS: config.OS, Arch: config.Architecture,
		Env: config.Config.Env, User: config.Config.User, Workdir: config.Config.WorkingDir,
		Entrypoint: config.Config.Entrypoint, Cmd: config.Config.Cmd,
	}
	for _, d := range config.RootFS.DiffIDs {
		i.Layers = append(i.Layers, d.String())
	}

	return i
}

func readJSON(path string, into any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}

	return json.Unmarshal(data, into)
}

// writeJSON writes a file atomically.
func (s *Store) writeJSON(path string, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}

	f, err := os.CreateTemp(s.path(tempDir), "json-")
	if err != nil {
		return err
	}

	_, err = f.Write(data)

	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}

	if err != nil {
		_ = os.Remove(f.Name())
	}

	return err
}

func (s *Store) path(parts ...string) string {
	return filepath.Join(append([]string{s.o.Dir}, parts...)...)
}
