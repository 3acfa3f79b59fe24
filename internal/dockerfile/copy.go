package dockerfile

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"

	"github.com/rolloutd/rolloutd/internal/driver/imageconfig"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/image"
)

// copying is a COPY or an ADD with its variables replaced.
type copying struct {
	items []item
	texts []instructions.SourceContent

	// absolute; a folder if it ends with a slash
	dest         string
	chown, chmod string

	// local tar files are unpacked
	unpack bool
}

// key is the key of the step.
func (c copying) key() (string, error) {
	content, err := digest(c.items)
	if err != nil {
		return "", err
	}

	parts := []string{"copy", content, c.dest, c.chown, c.chmod, strconv.FormatBool(c.unpack)}
	for _, t := range c.texts {
		parts = append(parts, t.Path, t.Data)
	}

	return keyOf(parts...), nil
}

// write writes the layer of the step over an image.
func (c copying) write(w io.Writer, view *image.Use, owners bool) error {
	l := newLayerWriter(w, view, owners)

	if err := c.setOwner(l); err != nil {
		return err
	}

	if err := c.setMode(l); err != nil {
		return err
	}

	dest, into, err := c.placeDest(l)
	if err != nil {
		return err
	}

	for _, i := range c.items {
		if err := c.item(l, i, dest, into); err != nil {
			return err
		}
	}

	for _, t := range c.texts {
		at := dest
		if into {
			at = path.Join(dest, path.Base(t.Path))
		}

		if err := l.text(at, t.Data, 0o644); err != nil {
			return err
		}
	}

	return l.t.Close()
}

// placeDest resolves the destination in the image. into: the sources come below it.
func (c copying) placeDest(l *layerWriter) (dest string, into bool, err error) {
	dest, err = l.place(clean(c.dest))
	if err != nil {
		return "", false, err
	}

	folder, exists, err := l.isFolder(dest)
	if err != nil {
		return "", false, err
	}

	slash := strings.HasSuffix(c.dest, "/")
	into = folder || slash

	switch {
	case exists && !folder && slash:
		return "", false, fault.New(fault.Invalid, "/%s is no folder in the image", dest)
	case len(c.items)+len(c.texts) > 1 && !into:
		return "", false, fault.New(fault.Invalid,
			"with several sources the destination must be a folder and end with /, got %q",
			c.dest)
	}

	return dest, into, nil
}

// setMode sets the mode of --chmod.
func (c copying) setMode(l *layerWriter) error {
	if c.chmod == "" {
		return nil
	}

	mode, err := strconv.ParseInt(c.chmod, 8, 32)
	if err != nil {
		return fault.New(fault.Invalid, "--chmod: must be octal digits, got %q", c.chmod)
	}

	l.mode = mode

	return nil
}

// setOwner finds the owner of --chown in the image.
func (c copying) setOwner(l *layerWriter) error {
	if c.chown == "" {
		return nil
	}

	user := c.chown
	if _, err := strconv.Atoi(user); err == nil {
		// a number is the group too
		user += ":" + user
	}

	a, err := imageconfig.AccountOf(l.view, user)
	if err != nil {
		return fault.Wrap(fault.Invalid, err, "--chown=%s", c.chown)
	}

	l.uid, l.gid = a.UID, a.GID

	return nil
}

// item writes a source: a folder's content, a file, or the content of a tar file.
func (c copying) item(l *layerWriter, i item, dest string, into bool) error {
	if c.unpack && i.info.Mode().IsRegular() {
		unpacked, err := c.unpackTar(l, i, dest)
		if unpacked || err != nil {
			return err
		}
	}

	if !i.info.IsDir() {
		at := dest
		if into {
			if err := l.parents(dest); err != nil {
				return err
			}

			at = path.Join(dest, i.name)
		}

		// a link there is replaced
		return l.file(at, i.from, i.path, i.info)
	}

	if folder, exists, err := l.isFolder(dest); err != nil || exists && !folder {
		return errors.Join(err, fault.New(fault.Invalid, "/%s is no folder in the image", dest))
	}

	if err := l.parents(dest); err != nil {
		return err
	}

	// where the folders of the source are in the image
	placed := map[string]string{".": dest}

	return i.walk(func(rel, name string, info fs.FileInfo) error {
		if rel == "." {
			return nil
		}

		parent, ok := placed[path.Dir(rel)]
		if !ok {
			parent = path.Join(dest, path.Dir(rel))
		}

		at := path.Join(parent, path.Base(rel))
		if !info.IsDir() {
			return l.file(at, i.from, name, info)
		}

		at, err := l.folder(at, i.from, info)
		placed[rel] = at

		return err
	})
}

// Magic numbers of compressed files.
var (
	gzipMagic  = []byte{0x1f, 0x8b}
	bzip2Magic = []byte("BZh")
	xzMagic    = []byte{0xfd, '7', 'z', 'X', 'Z', 0}
	zstdMagic  = []byte{0x28, 0xb5, 0x2f, 0xfd}
)

// unpackTar writes the content of a tar file below dest. It is false for a file that is none.
func (c copying) unpackTar(l *layerWriter, i item, dest string) (bool, error) {
	f, err := i.from.open(i.path)
	if err != nil {
		return false, err
	}
	defer f.Close()

	head := bufio.NewReader(io.LimitReader(f, i.info.Size()))

	content, err := decompressed(head, i.name)
	if err != nil || content == nil {
		return false, err
	}

	t := tar.NewReader(&boundedReader{content, maxCopied})

	h, err := t.Next()
	if err != nil {
		// as in engines: any other file is copied
		return false, nil //nolint:nilerr // it is no tar file
	}

	if err := l.parents(dest); err != nil {
		return true, err
	}

	for entries := 0; err == nil; h, err = t.Next() {
		if entries++; entries > maxEntries {
			return true, fault.New(fault.Invalid, "%s: must have at most %d files", i.name, maxEntries)
		}

		if err := l.member(dest, h, t); err != nil {
			return true, fault.Wrap(fault.Invalid, err, "%s: %.200q", i.name, h.Name)
		}
	}

	if !errors.Is(err, io.EOF) {
		return true, fault.Wrap(fault.Invalid, err, "%s", i.name)
	}

	return true, nil
}

// decompressed returns the content of a file that may be a tar file; nil: it is none.
func decompressed(head *bufio.Reader, name string) (io.Reader, error) {
	magic, err := head.Peek(6)
	if err != nil {
		return nil, nil //nolint:nilerr // too short for a tar file
	}

	switch {
	case bytes.HasPrefix(magic, gzipMagic):
		z, err := gzip.NewReader(head)
		if err != nil {
			return nil, nil //nolint:nilerr // it only begins like one
		}

		return z, nil
	case bytes.HasPrefix(magic, bzip2Magic):
		return bzip2.NewReader(head), nil
	case bytes.HasPrefix(magic, xzMagic), bytes.HasPrefix(magic, zstdMagic):
		return nil, fault.New(fault.Invalid, "%s: ADD unpacks tar files that are not compressed, or with gzip or bzip2",
			name)
	}

	return head, nil
}

// member writes a member of a tar file below dest. Its owners are those of the file.
func (l *layerWriter) member(dest string, h *tar.Header, content io.Reader) error {
	if slices.Contains(strings.Split(h.Name, "/"), "..") {
		return fault.New(fault.Invalid, "its path leads out of the tar file")
	}

	if clean(h.Name) == "." {
		return nil
	}

	at, err := l.placeMember(dest, h.Name)
	if err != nil {
		return err
	}

	if err := l.parents(path.Dir(at)); err != nil {
		return err
	}

	next := &tar.Header{
		Typeflag: h.Typeflag, Name: at, Mode: h.Mode, Uid: h.Uid, Gid: h.Gid, ModTime: h.ModTime, Format: tar.FormatPAX,
	}
	if l.uid >= 0 {
		next.Uid, next.Gid = l.uid, l.gid
	}

	switch h.Typeflag {
	case tar.TypeReg:
		next.Size = h.Size
	case tar.TypeSymlink:
		next.Linkname = h.Linkname
	case tar.TypeLink:
		if next.Linkname, err = l.placeMember(dest, h.Linkname); err != nil {
			return err
		}
	case tar.TypeDir:
		return l.memberFolder(next)
	default:
		return nil
	}

	if err := l.t.WriteHeader(next); err != nil {
		return err
	}

	_, err = io.CopyN(l.t, content, next.Size)

	return err
}

// placeMember is where a member of a tar file goes below dest: through links to folders that the image has.
func (l *layerWriter) placeMember(dest, name string) (string, error) {
	name = clean(name)

	parent, err := l.place(path.Join(dest, path.Dir(name)))
	if err != nil {
		return "", err
	}

	return path.Join(parent, path.Base(name)), nil
}

// memberFolder writes a folder of a tar file. In place of a link to a folder it uses that folder. A folder that the image
// has keeps its owner and mode.
func (l *layerWriter) memberFolder(h *tar.Header) error {
	at, err := l.place(h.Name)
	if err != nil {
		return err
	}

	if _, exists, err := l.isFolder(at); err != nil || exists {
		return errors.Join(err, l.parents(at))
	}

	if err := l.parents(path.Dir(at)); err != nil {
		return err
	}

	h.Name, l.folders[at] = at, true

	return l.t.WriteHeader(h)
}

// boundedReader fails past a number of bytes: a small compressed file may hold endless zeros.
type boundedReader struct {
	r         io.Reader
	remaining int64
}

func (b *boundedReader) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if b.remaining -= int64(n); b.remaining < 0 {
		return n, fault.New(fault.Invalid, "has more than %d bytes", int64(maxCopied))
	}

	return n, err
}
