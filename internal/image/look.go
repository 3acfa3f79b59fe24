package image

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// entry is where a path of an image was found: in the highest layer that has it.
type entry struct {
	// folder of the layer; "" where no layer has the path
	layer string

	// within the layer, without a leading slash
	name string
	mode fs.FileMode
}

// FirstNoFolder returns the first part of an absolute path that is in the image and is not a folder, and
// its type: a link, a file, a device. It returns "" if all existing parts are folders. It does not follow
// links.
func (u *Use) FirstNoFolder(p string) (string, fs.FileMode, error) {
	at := ""
	for part := range strings.SplitSeq(strings.Trim(p, "/"), "/") {
		at = path.Join(at, part)

		e, err := u.find(at)
		switch {
		case err != nil:
			return "", 0, err
		case e.layer == "":
			return "", 0, nil
		case !e.mode.IsDir():
			return "/" + at, e.mode.Type(), nil
		}
	}

	return "", 0, nil
}

// ReadFile reads a regular file of at most most bytes. The error is an fs.ErrNotExist if there is none or
// it is below a link, and a fault.Invalid if it is larger.
func (u *Use) ReadFile(p string, most int64) ([]byte, error) {
	e, err := u.find(strings.Trim(p, "/"))
	if err != nil {
		return nil, err
	}

	if e.layer == "" || !e.mode.IsRegular() {
		return nil, fmt.Errorf("%s of the image: %w", p, fs.ErrNotExist)
	}

	root, err := os.OpenRoot(e.layer)
	if err != nil {
		return nil, err
	}
	defer root.Close()

	f, err := root.OpenFile(e.name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()

	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most {
		err = fault.New(fault.Invalid, "%s of the image has more than %d bytes", p, most)
	}

	return data, err
}

// find looks for a path as overlayfs does: the highest layer with the path wins; whiteouts, files and
// opaque folders hide lower layers.
func (u *Use) find(name string) (entry, error) {
	for n := len(u.Layers) - 1; n >= 0; n-- {
		mode, next, err := lookIn(u.Layers[n], name)
		if err != nil {
			return entry{}, err
		}

		if mode != nil {
			return entry{layer: u.Layers[n], name: name, mode: *mode}, nil
		}

		if !next {
			break
		}
	}

	return entry{}, nil
}

// lookIn looks for a path in one layer, and reports whether the layers below may have it.
func lookIn(layer, name string) (mode *fs.FileMode, next bool, err error) {
	root, err := os.OpenRoot(layer)
	if err != nil {
		return nil, false, err
	}
	defer root.Close()

	at, opaque := "", false
	for part := range strings.SplitSeq(name, "/") {
		at = path.Join(at, part)

		st, err := root.Lstat(at)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, !opaque, nil
		case err != nil:
			return nil, false, err
		case st.Mode()&fs.ModeCharDevice != 0: // a whiteout: a layer has no other device
			return nil, false, nil
		case at == name:
			found := st.Mode()
			return &found, false, nil
		case !st.IsDir():
			return nil, false, nil
		}

		if !opaque {
			opaque, err = isOpaque(root, at)
			if err != nil {
				return nil, false, err
			}
		}
	}

	return nil, false, nil
}

// isOpaque reports whether a folder hides the one below it.
func isOpaque(root *os.Root, name string) (bool, error) {
	dir, err := root.Open(name)
	if err != nil {
		return false, err
	}
	defer dir.Close()

	for _, attribute := range []string{owner{root: true}.opaque(), owner{}.opaque()} {
		if n, err := unix.Fgetxattr(int(dir.Fd()), attribute, make([]byte, 8)); err == nil && n > 0 {
			return true, nil
		}
	}

	return false, nil
}
