package files

import (
	"archive/tar"
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/fault"
)

func (u *unpacker) folder(name string, h *tar.Header) error {
	d, err := u.enter(path.Dir(name))
	if err != nil {
		return err
	}

	if name != "." {
		err = unix.Mkdirat(d.fd, path.Base(name), 0o700)
		if errors.Is(err, unix.EEXIST) {
			err = u.makeWay(d, path.Base(name))
		}

		if err != nil {
			return err
		}
	}

	u.folders = append(u.folders, &tar.Header{Name: name, Mode: h.Mode, ModTime: h.ModTime})

	return nil
}

// makeWay makes name a writable directory.
func (u *unpacker) makeWay(d *dir, name string) error {
	sub, err := d.sub(name)
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return replace(d, name, func() error { return unix.Mkdirat(d.fd, name, 0o700) })
	}

	if err != nil {
		return err
	}

	defer sub.close()

	st, err := sub.stat(".")
	if err == nil && (isSticky(&st) || u.exact != nil && st.Mode&0o700 == 0o700) {
		return nil
	}

	return sub.chmod(0o700)
}

// finish sets the modes and times of directories, the deepest first.
func (u *unpacker) finish() error {
	if u.exact != nil {
		if err := u.exact.prune(u.root, "", 0); err != nil {
			return err
		}
	}

	for _, h := range slices.Backward(u.folders) {
		d, err := u.root.walk(components(h.Name), false)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
			// a later entry has replaced it
			continue
		}

		if err != nil {
			return err
		}

		if !d.keeps(h, u.exact != nil) {
			// in an unreadable one "." cannot be opened
			err = errors.Join(setTime(d, ".", h.ModTime), d.chmod(uint32(h.Mode)))
		}

		d.close()

		if err != nil {
			return err
		}
	}

	return nil
}

func (u *unpacker) file(d *dir, name string, h *tar.Header, data io.Reader) error {
	if err := u.meter.content(h.Name, h.Size); err != nil {
		return err
	}

	if u.exact != nil {
		return u.update(d, name, h, data)
	}

	err := replace(d, name, func() error { return d.create(name, uint32(h.Mode), data, copySparse) })
	if err != nil {
		return err
	}

	return setTime(d, name, h.ModTime)
}

func (u *unpacker) symlink(d *dir, name string, h *tar.Header) error {
	if u.exact != nil && d.linkedTo(name, h.Linkname) {
		return nil
	}

	err := u.clearFolder(d, name)
	if err == nil {
		err = replace(d, name, func() error { return unix.Symlinkat(h.Linkname, d.fd, name) })
	}

	if err != nil {
		return err
	}

	return setTime(d, name, h.ModTime)
}

func (u *unpacker) hardLink(d *dir, name string, h *tar.Header) error {
	if err := u.clearFolder(d, name); err != nil {
		return err
	}

	target, err := inside(h.Linkname)
	if err != nil {
		return fault.Wrap(fault.Invalid, err, "hard link to %q", h.Linkname)
	}

	target = u.names.inFolder(target)

	from, err := u.root.walk(components(path.Dir(target)), false)
	if err != nil {
		return err
	}
	defer from.close()

	if u.exact != nil && sameFile(d, name, from, path.Base(target)) {
		return nil
	}

	return replace(d, name, func() error { return unix.Linkat(from.fd, path.Base(target), d.fd, name, 0) })
}

// replace creates a new file at name, in place of any that is not a directory.
func replace(d *dir, name string, create func() error) error {
	if err := unix.Unlinkat(d.fd, name, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return err
	}

	return create()
}

func setTime(d *dir, name string, t time.Time) error {
	if t.IsZero() || t.Unix() < 0 {
		return nil
	}

	ts := unix.NsecToTimespec(t.UnixNano())

	return unix.UtimesNanoAt(d.fd, name, []unix.Timespec{ts, ts}, unix.AT_SYMLINK_NOFOLLOW)
}
