package image

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// Names with a meaning in the tar form of a layer.
const (
	whiteoutPrefix = ".wh."
	opaqueName     = ".wh..wh..opq"
)

// unpacker writes the entries of one layer into an empty folder. It opens every path through os.Root: no
// name, link or link target leads out of the folder.
type unpacker struct {
	root   *os.Root
	owner  owner
	budget *budget
	layer
	dirs folders
}

// unpack reads the tar of a layer to its end. Device nodes, FIFOs and sockets are left out.
func unpack(ctx context.Context, r io.Reader, root *os.Root, own owner, b *budget) (layer, error) {
	u := &unpacker{root: root, owner: own, budget: b, dirs: newFolders()}

	for t := tar.NewReader(r); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}

		if err == nil {
			err = ctx.Err()
		}

		if err != nil {
			return u.layer, readError(err)
		}

		if err := u.entry(h, t); err != nil {
			return u.layer, entryError(h.Name, err)
		}
	}

	return u.layer, u.finishDirs()
}

// readError wraps an error of reading a layer in its kind; an error of the registry has a kind already.
func readError(err error) error {
	switch {
	case fault.KindOf(err) != fault.Internal:
		return err
	case errors.Is(err, context.Canceled),
		errors.Is(err, context.DeadlineExceeded),
		errors.Is(err, io.ErrUnexpectedEOF):
		return fault.Wrap(fault.Unavailable, err, "read layer")
	default:
		return fault.Wrap(fault.Invalid, err, "image: read layer")
	}
}

func entryError(name string, err error) error {
	kind := fault.Invalid

	var known *fault.Error
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return fault.Wrap(fault.Exhausted, err, "no space for the layers of the image")
	case errors.As(err, &known):
		kind = known.Kind
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, unix.EIO):
		kind = fault.Unavailable
	}

	return fault.Wrap(kind, err, "image: entry %.200q of a layer", name)
}

// clean returns the path of an entry below the folder.
func (u *unpacker) clean(name string) (string, error) {
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return "", fault.New(fault.Invalid, "its path leads out of the image")
		}
	}

	p := path.Clean(strings.TrimLeft(name, "/"))
	if strings.Count(p, "/") >= u.budget.Depth {
		return "", fault.New(fault.Invalid, "it lies deeper than %d folders", u.budget.Depth)
	}

	return p, nil
}

func (u *unpacker) entry(h *tar.Header, content io.Reader) error {
	if u.Entries++; !u.budget.takeEntry() {
		return fault.New(fault.Invalid, "the image has more than %d entries", u.budget.Entries)
	}

	name, err := u.clean(h.Name)
	if err != nil {
		return err
	}

	if name == "." {
		if h.Typeflag == tar.TypeDir {
			return u.keepHeader(name, h)
		}

		return nil
	}

	if err := u.parents(name); err != nil {
		return err
	}

	if strings.HasPrefix(path.Base(name), whiteoutPrefix) {
		return u.whiteout(name)
	}

	if err := u.makeWay(name, h.Typeflag == tar.TypeDir); err != nil {
		return err
	}

	return u.write(name, h, content)
}

func (u *unpacker) write(name string, h *tar.Header, content io.Reader) error {
	switch h.Typeflag {
	case tar.TypeDir:
		if err := u.keepHeader(name, h); err != nil {
			return err
		}

		if err := u.root.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}

		return nil
	case tar.TypeReg:
		return u.file(name, h, content)
	case tar.TypeSymlink:
		if err := u.root.Symlink(h.Linkname, name); err != nil {
			return err
		}

		return u.owner.link(u.root, name, h)
	case tar.TypeLink:
		target, err := u.clean(h.Linkname)
		if err != nil {
			return err
		}

		if st, err := u.root.Lstat(target); err != nil || st.IsDir() || st.Mode()&fs.ModeDevice != 0 {
			return fault.New(fault.Invalid, "it is a hard link to %.200q, which is not a file of this layer",
				h.Linkname)
		}

		return u.root.Link(target, name)
	default:
		return nil
	}
}

// keepHeader stores the header that a folder gets at the end. It is a copy, which keeps no other parts of the
// header in memory.
func (u *unpacker) keepHeader(name string, h *tar.Header) error {
	kept := &tar.Header{
		Typeflag:   tar.TypeDir,
		Mode:       h.Mode,
		Uid:        h.Uid,
		Gid:        h.Gid,
		ModTime:    h.ModTime,
		PAXRecords: map[string]string{},
	}
	size := len(name)

	for record, value := range h.PAXRecords {
		if attribute, ok := strings.CutPrefix(record, xattrRecord); ok && u.owner.keeps(attribute) {
			// a part of one text with all records
			kept.PAXRecords[strings.Clone(record)] = strings.Clone(value)
			size += len(record) + len(value)
		}
	}

	if !u.budget.takeFolder(size) {
		return fault.New(fault.Invalid, "names and attributes of the image's folders have more than %d bytes",
			u.budget.Folders)
	}

	u.dirs.addFolder(strings.Clone(name), kept)

	return nil
}

// file writes a regular file. Its length is that of its header: a reader of tar files never returns more.
func (u *unpacker) file(name string, h *tar.Header, content io.Reader) (err error) {
	if u.Bytes += h.Size; !u.budget.takeBytes(h.Size) {
		return fault.New(fault.Invalid, "the image has more than %d bytes", u.budget.Bytes)
	}

	f, err := u.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}

	defer func() { err = errors.Join(err, f.Close()) }()

	if _, err := io.Copy(f, content); err != nil {
		return err
	}

	return u.owner.finish(f, h)
}

// parents creates the folders above name for which the layer has no entry.
func (u *unpacker) parents(name string) error {
	dir := path.Dir(name)
	if dir == "." {
		return nil
	}

	if st, err := u.root.Stat(dir); err == nil {
		if !st.IsDir() {
			return fault.New(fault.Invalid, "it lies below %.200q, which is not a folder", dir)
		}

		return nil
	}

	if err := u.root.MkdirAll(dir, 0o755); err != nil {
		return fault.Wrap(fault.Invalid, err, "it lies below %.200q, which leads out of the image or is not a folder", dir)
	}

	return nil
}

// makeWay removes what an earlier entry of the layer created at name. It keeps a folder if the new entry is a folder.
func (u *unpacker) makeWay(name string, dir bool) error {
	st, err := u.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}

	if err != nil || dir && st.IsDir() {
		return err
	}

	u.dirs.forget(name)

	return u.root.RemoveAll(name)
}

// finishDirs sets the owners, modes and times of the folders, after the last file was written into them.
func (u *unpacker) finishDirs() error {
	for name, h := range u.dirs.headers {
		f, err := u.root.Open(name)
		if err != nil {
			return entryError(name, err)
		}

		if err := errors.Join(u.owner.finish(f, h), f.Close()); err != nil {
			return entryError(name, err)
		}
	}

	return nil
}

// mtime limits a time to the range that file systems support.
func mtime(h *tar.Header) time.Time {
	if t := h.ModTime; t.Unix() > 0 && t.Unix() < 1<<33 {
		return t
	}

	return time.Unix(0, 0)
}
