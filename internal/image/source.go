package image

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// platform is the platform of this machine.
func platform() v1.Platform { return v1.Platform{OS: "linux", Architecture: runtime.GOARCH} }

// openPath opens an image at path: the folder of a root file system, an OCI layout folder, an archive of
// docker save, or a tar file of an OCI layout, which is unpacked into temp.
func (s *Store) openPath(ctx context.Context, path, temp string) (v1.Image, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, fault.Wrap(fault.NotFound, err, "image")
	}

	if st.IsDir() {
		if isLayout(path) {
			return fromLayout(path)
		}

		return folderImage(ctx, path, runtime.GOARCH)
	}

	docker, err := hasMember(path, "manifest.json")
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "image: %s is neither a folder nor a tar file", path)
	}

	if docker {
		i, err := tarball.ImageFromPath(path, nil)
		return i, fault.Wrap(fault.Invalid, err, "image: %s must be an archive of docker save with one image", path)
	}

	if err := s.untarLayout(ctx, path, temp); err != nil {
		return nil, err
	}

	if !isLayout(temp) {
		return nil, fault.New(fault.Invalid, "image: %s is neither an archive of docker save nor an OCI archive", path)
	}

	return fromLayout(temp)
}

func isLayout(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "oci-layout"))
	return err == nil
}

// hasMember reports whether the tar file has a member of that name.
func hasMember(path, name string) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()

	for t := tar.NewReader(f); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return false, nil
		}

		if err != nil {
			return false, err
		}

		if strings.TrimPrefix(h.Name, "./") == name {
			return true, nil
		}
	}
}

// untarLayout unpacks a tar file of an OCI layout, under the bounds of a layer.
func (s *Store) untarLayout(ctx context.Context, path, temp string) error {
	f, err := os.Open(path)
	if err != nil {
		return fault.Wrap(fault.NotFound, err, "image")
	}
	defer f.Close()

	root, err := os.OpenRoot(temp)
	if err != nil {
		return fault.Wrap(fault.Unavailable, err, "unpack image")
	}
	defer root.Close()

	_, err = unpack(ctx, f, root, owner{}, &budget{Limits: s.o.Limits})

	return err
}

// fromLayout returns the image for this machine from an OCI layout.
func fromLayout(dir string) (v1.Image, error) {
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "image: OCI layout %s", dir)
	}

	return pick(index, 0)
}

// maxNesting bounds indexes within indexes.
const maxNesting = 4

// pick returns the image for this machine. An index of a layout may contain the index of an image.
func pick(index v1.ImageIndex, depth int) (v1.Image, error) {
	m, err := index.IndexManifest()
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "image: index")
	}

	var others []string

	for _, d := range m.Manifests {
		switch {
		case d.MediaType.IsIndex() && depth < maxNesting:
			inner, err := index.ImageIndex(d.Digest)
			if err != nil {
				return nil, fault.Wrap(fault.Invalid, err, "image: index %s", d.Digest)
			}

			return pick(inner, depth+1)
		case d.MediaType.IsImage() && (d.Platform == nil || d.Platform.Satisfies(platform())):
			i, err := index.Image(d.Digest)
			return i, fault.Wrap(fault.Invalid, err, "image: manifest %s", d.Digest)
		case d.Platform != nil && d.Platform.OS != "unknown": // attestations have the platform "unknown"
			others = append(others, d.Platform.String())
		}
	}

	return nil, wrongPlatform(others)
}

func wrongPlatform(others []string) error {
	has := "none"
	if len(others) > 0 {
		has = strings.Join(others[:min(len(others), 20)], ", ")
	}

	return fault.New(fault.Invalid, "image: it has no variant for %s; it has: %s", platform(), has)
}
