package files

import (
	"archive/tar"
	"errors"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/sandboxd/reply"
)

// Unpack writes a tar below path, which is created if missing. limit bounds the bytes of its files.
func (p Places) Unpack(path string, limit int64, r io.Reader, names Names) error {
	root, err := p.dir(path, true)
	if err == nil {
		defer root.close()

		u := &unpacker{root: root, meter: newMeter(limit), names: names}
		err = u.unpack(r)
		u.close()
	}

	return fault.Wrap(reply.Kind(err), err, "unpack to %q", path)
}

// unpacker writes a tar below root. It never writes through a link, so links may be restored with any
// target: they lead a reader inside the sandbox only where it could go by itself, and virtual environments
// have many links to /usr. Hard links must stay inside root.
type unpacker struct {
	root  *dir
	meter *meter
	names Names

	// folder of the last entry, since entries of one directory usually follow each other
	parent     *dir
	parentName string

	// their modes are set last: a read-only one must first be filled
	folders []*tar.Header

	// nil: existing files stay
	exact *exact

	// entries that are left out, with all below them
	skip []string
}

func (u *unpacker) unpack(r io.Reader) error {
	t := tar.NewReader(r)
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return u.finish()
		}

		if err != nil {
			return fault.Wrap(fault.Invalid, err, "read tar")
		}

		if err := u.entry(h, t); err != nil {
			return fault.Wrap(reply.Kind(err), err, "entry %.100q", h.Name)
		}
	}
}

func (u *unpacker) entry(h *tar.Header, data io.Reader) error {
	name, err := inside(h.Name)
	if err == nil {
		err = u.meter.entry(name)
	}

	if err != nil || u.skips(name) {
		return err
	}

	name = u.names.inFolder(name)

	if u.exact != nil {
		u.exact.addName(name)
	}

	if h.Typeflag == tar.TypeDir {
		return u.folder(name, h)
	}

	if name == "." {
		return fault.New(fault.Invalid, "has no name")
	}

	d, err := u.enter(path.Dir(name))
	if err != nil {
		return err
	}

	switch base := path.Base(name); h.Typeflag {
	case tar.TypeReg, tar.TypeGNUSparse:
		return u.file(d, base, h, data)
	case tar.TypeSymlink:
		return u.symlink(d, base, h)
	case tar.TypeLink:
		return u.hardLink(d, base, h)
	default:
		// devices and FIFOs are left out
		return u.clearFolder(d, base)
	}
}

// skips reports whether an entry is left out.
func (u *unpacker) skips(name string) bool {
	return slices.ContainsFunc(u.skip, func(s string) bool { return name == s || strings.HasPrefix(name, s+"/") })
}

// inside cleans the name of an entry, which must stay below the root.
func inside(name string) (string, error) {
	if path.IsAbs(name) || slices.Contains(strings.Split(name, "/"), "..") || strings.ContainsRune(name, 0) {
		return "", fault.New(fault.Invalid, "leads out of the folder")
	}

	return path.Clean(name), nil
}

// enter opens the directory name below the root, created if missing. u owns it.
func (u *unpacker) enter(name string) (*dir, error) {
	if u.parent != nil && name == u.parentName {
		return u.parent, nil
	}

	d, err := u.root.walk(components(name), true)
	if err != nil {
		return nil, err
	}

	u.close()
	u.parent, u.parentName = d, name

	return d, nil
}

func (u *unpacker) close() {
	if u.parent != nil {
		u.parent.close()
		u.parent = nil
	}
}

func components(name string) []string {
	if name == "." {
		return nil
	}

	return strings.Split(name, "/")
}
