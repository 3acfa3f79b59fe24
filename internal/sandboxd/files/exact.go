package files

import (
	"archive/tar"
	"bytes"
	"crypto/rand"
	"errors"
	"hash/maphash"
	"io"
	"io/fs"
	"path"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/sandboxd/reply"
)

// Restore makes the folder path equal to a tar, with the bounds of Unpack. It does not rewrite equal files,
// and removes files that are not in the tar: unchanged files of an image take no space. It leaves out the
// entries in skip.
func (p Places) Restore(path string, limit int64, r io.Reader, names Names, skip ...string) error {
	root, err := p.dir(path, true)
	if err == nil {
		defer root.close()

		u := &unpacker{
			root: root, meter: newMeter(limit), names: names, skip: skip,
			exact: &exact{maphash.MakeSeed(), map[uint64]struct{}{}},
		}
		err = u.unpack(r)
		u.close()
	}

	return fault.Wrap(reply.Kind(err), err, "restore %q", path)
}

// exact holds the names of a tar's entries as hashes, since a tree has many.
type exact struct {
	seed  maphash.Seed
	names map[uint64]struct{}
}

// addName adds a name and those of its parents.
func (e *exact) addName(name string) {
	for ; name != "."; name = path.Dir(name) {
		key := maphash.String(e.seed, name)
		if _, known := e.names[key]; known {
			return
		}

		e.names[key] = struct{}{}
	}
}

func (e *exact) has(name string) bool {
	_, ok := e.names[maphash.String(e.seed, name)]
	return ok
}

// prune removes files without an entry in the tar.
func (e *exact) prune(d *dir, rel string, depth int) error {
	if depth > maxDepth {
		return fault.New(fault.Invalid, "directories are nested deeper than %d: %q", maxDepth, rel)
	}

	names, err := d.names(maxEntries)
	if err != nil {
		return err
	}

	for _, name := range names {
		if err := e.pruneOne(d, name, path.Join(rel, name), depth); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}

	return nil
}

func (e *exact) pruneOne(d *dir, name, rel string, depth int) error {
	if !e.has(rel) {
		return removeTree(d, name)
	}

	st, err := d.stat(name)
	if err != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return err
	}

	sub, err := d.sub(name)
	if err != nil {
		return err
	}
	defer sub.close()

	return e.prune(sub, rel, depth+1)
}

// update keeps a file with the contents and the mode of the entry, and replaces anything else.
func (u *unpacker) update(d *dir, name string, h *tar.Header, data io.Reader) error {
	old, err := d.open(name, unix.O_RDONLY, 0)
	if err != nil {
		return u.renew(d, name, h, data)
	}
	defer old.Close()

	st, err := old.Stat()
	if err != nil {
		return err
	}

	if !st.Mode().IsRegular() || st.Size() != h.Size || st.Mode().Perm() != fs.FileMode(h.Mode&0o777) {
		return u.renew(d, name, h, data)
	}

	equal, rest, err := compare(old, data)
	switch {
	case err != nil:
		return err
	case rest != nil:
		return u.renew(d, name, h, io.MultiReader(io.NewSectionReader(old, 0, equal), bytes.NewReader(rest), data))
	case st.ModTime().Equal(h.ModTime):
		return nil
	default:
		// another user's file is equal but for its time
		if err := setTime(d, name, h.ModTime); !errors.Is(err, fs.ErrPermission) {
			return err
		}

		return nil
	}
}

// compare reads data while it equals the file, and returns the length of the equal part and the block that
// differs; nil: all is equal.
func compare(old io.ReaderAt, data io.Reader) (equal int64, rest []byte, err error) {
	block, have := make([]byte, 64<<10), make([]byte, 64<<10)
	for {
		n, err := io.ReadFull(data, block)
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return 0, nil, err
		}

		if m, _ := old.ReadAt(have[:n], equal); m != n || !bytes.Equal(block[:n], have[:n]) {
			return equal, block[:n], nil
		}

		if equal += int64(n); err != nil {
			return equal, nil, nil
		}
	}
}

// renew writes the new file beside the old one, from which it may read, and then replaces it.
func (u *unpacker) renew(d *dir, name string, h *tar.Header, data io.Reader) error {
	temp := tempPrefix + rand.Text()

	err := d.create(temp, uint32(h.Mode), data, copySparse)
	if err == nil {
		err = setTime(d, temp, h.ModTime)
	}

	if err == nil {
		err = d.clearFolder(name)
	}

	if err == nil {
		err = unix.Renameat(d.fd, temp, d.fd, name)
	}

	if err != nil {
		_ = unix.Unlinkat(d.fd, temp, 0)
	}

	return err
}

// clearFolder makes way for an entry that is no folder, where the tree is to be equal to the tar.
func (u *unpacker) clearFolder(d *dir, name string) error {
	if u.exact == nil {
		return nil
	}

	return d.clearFolder(name)
}

// clearFolder removes a folder of that name, which a rename cannot replace.
func (d *dir) clearFolder(name string) error {
	st, err := d.stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}

	if err != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return err
	}

	return removeTree(d, name)
}

// keeps reports whether the folder keeps its mode and its time: if all users make files in it, or if a folder that is
// to be equal to the entry has both. If it belongs to another user, only that user could set them.
func (d *dir) keeps(h *tar.Header, exact bool) bool {
	st, err := d.stat(".")
	if err != nil {
		return false
	}

	like := st.Mode&0o777 == uint32(h.Mode&0o777) && time.Unix(st.Mtim.Unix()).Equal(h.ModTime)

	return isSticky(&st) || exact && like
}

// isSticky reports whether all users make files in a folder, as in /tmp.
func isSticky(st *unix.Stat_t) bool { return st.Mode&unix.S_ISVTX != 0 }

// linkedTo reports whether name is a symbolic link to target.
func (d *dir) linkedTo(name, target string) bool {
	buf := make([]byte, len(target)+1)
	n, err := unix.Readlinkat(d.fd, name, buf)

	return err == nil && string(buf[:n]) == target
}

// sameFile reports whether two names are of the same file.
func sameFile(d *dir, name string, other *dir, otherName string) bool {
	a, err := d.stat(name)
	b, otherErr := other.stat(otherName)

	return err == nil && otherErr == nil && a.Dev == b.Dev && a.Ino == b.Ino
}
