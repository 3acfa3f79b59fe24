package dockerfile

import (
	"archive/tar"
	"errors"
	"io"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/image"
)

// layerWriter writes the tar of a layer over an image. A folder above a new file that the image has keeps its owner
// and mode, since the highest layer with a folder decides about them.
type layerWriter struct {
	t    *tar.Writer
	view *image.Use
	tree imageTree

	// folders that were written
	folders map[string]bool

	// owner of new files; -1: that of their source
	uid, gid int

	// mode of new files and folders; -1: that of their source
	mode int64
}

func newLayerWriter(w io.Writer, view *image.Use, owners bool) *layerWriter {
	return &layerWriter{
		t: tar.NewWriter(w), view: view, tree: imageTree{view, owners}, folders: map[string]bool{".": true},
		uid: -1, gid: -1, mode: -1,
	}
}

// place resolves the links of a path in the image.
func (l *layerWriter) place(name string) (string, error) {
	at, err := l.view.Resolve(name)
	if err != nil {
		return "", fault.New(fault.Invalid, "/%s cannot be written: %v", name, err)
	}

	return at, nil
}

// isFolder reports whether the image has a folder at a resolved path; exists whether it has anything there.
func (l *layerWriter) isFolder(at string) (folder, exists bool, err error) {
	if at == "." {
		return true, true, nil
	}

	info, err := l.view.Lstat(at)
	if errors.Is(err, fs.ErrNotExist) {
		return false, false, nil
	}

	if err != nil {
		return false, false, err
	}

	return info.IsDir(), true, nil
}

// parents writes the folders of a resolved path: those of the image as they are, and missing ones.
func (l *layerWriter) parents(at string) error {
	if l.folders[at] {
		return nil
	}

	if err := l.parents(path.Dir(at)); err != nil {
		return err
	}

	folder, exists, err := l.isFolder(at)
	if err != nil {
		return err
	}

	if exists && !folder {
		return fault.New(fault.Invalid, "/%s is no folder in the image", at)
	}

	l.folders[at] = true

	h := &tar.Header{Typeflag: tar.TypeDir, Name: at, Mode: 0o755, Uid: max(l.uid, 0), Gid: max(l.gid, 0)}

	if exists {
		info, err := l.view.Lstat(at)
		if err != nil {
			return err
		}

		h.Uid, h.Gid = l.tree.owner(info)
		h.Mode, h.ModTime = modeOf(info), info.ModTime()
	}

	return l.t.WriteHeader(h)
}

// folder writes a folder of a source. In place of a link to a folder it uses that folder, and returns its path.
func (l *layerWriter) folder(at string, from tree, info fs.FileInfo) (string, error) {
	at, err := l.place(at)
	if err != nil {
		return "", err
	}

	if at == "." || l.folders[at] {
		return at, nil
	}

	folder, exists, err := l.isFolder(at)
	if err != nil {
		return "", err
	}

	if exists && !folder {
		return "", fault.New(fault.Invalid, "/%s is no folder in the image", at)
	}

	if err := l.parents(path.Dir(at)); err != nil {
		return "", err
	}

	l.folders[at] = true

	return at, l.t.WriteHeader(l.header(at, from, info, tar.TypeDir))
}

// file writes a file or a link of a source.
func (l *layerWriter) file(at string, from tree, name string, info fs.FileInfo) error {
	if folder, _, err := l.isFolder(at); err != nil || folder {
		return errors.Join(err, fault.New(fault.Invalid, "/%s is a folder in the image", at))
	}

	if err := l.parents(path.Dir(at)); err != nil {
		return err
	}

	if info.Mode()&fs.ModeSymlink != 0 {
		h := l.header(at, from, info, tar.TypeSymlink)

		target, err := from.readlink(name)
		if err != nil {
			return err
		}

		h.Linkname = target

		return l.t.WriteHeader(h)
	}

	f, err := from.open(name)
	if err != nil {
		return err
	}
	defer f.Close()

	h := l.header(at, from, info, tar.TypeReg)
	h.Size = info.Size()

	if err := l.t.WriteHeader(h); err != nil {
		return err
	}

	_, err = io.CopyN(l.t, f, h.Size)

	return err
}

// text writes a file with a text.
func (l *layerWriter) text(at, text string, mode int64) error {
	if err := l.parents(path.Dir(at)); err != nil {
		return err
	}

	if l.mode >= 0 {
		mode = l.mode
	}

	h := &tar.Header{
		Typeflag: tar.TypeReg, Name: at, Mode: mode, Size: int64(len(text)),
		Uid: max(l.uid, 0), Gid: max(l.gid, 0), ModTime: time.Unix(0, 0),
	}
	if err := l.t.WriteHeader(h); err != nil {
		return err
	}

	_, err := io.WriteString(l.t, text)

	return err
}

func (l *layerWriter) header(at string, from tree, info fs.FileInfo, kind byte) *tar.Header {
	h := &tar.Header{Typeflag: kind, Name: at, Mode: modeOf(info), ModTime: info.ModTime(), Format: tar.FormatPAX}

	h.Uid, h.Gid = from.owner(info)
	if l.uid >= 0 {
		h.Uid, h.Gid = l.uid, l.gid
	}

	if l.mode >= 0 && kind != tar.TypeSymlink {
		h.Mode = l.mode
	}

	return h
}

// modeOf is the mode of a tar header.
func modeOf(info fs.FileInfo) int64 {
	mode := int64(info.Mode().Perm())

	for bit, value := range map[fs.FileMode]int64{fs.ModeSetuid: 0o4000, fs.ModeSetgid: 0o2000, fs.ModeSticky: 0o1000} {
		if info.Mode()&bit != 0 {
			mode |= value
		}
	}

	return mode
}

// clean is an absolute path without its leading slash; "." for the root.
func clean(p string) string {
	if p = strings.Trim(path.Clean("/"+p), "/"); p == "" {
		return "."
	}

	return p
}
