package docker

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// copiesMount has numbered copies of folders of the image. A mount on such a folder hides it, and is filled
// from its copy.
const copiesMount = ownMount + "/copies"

func copyOf(number int) string { return copiesMount + "/" + strconv.Itoa(number) }

const (
	// maxCopied bounds the files of a copied folder, in bytes.
	maxCopied = 4 << 30
	// maxCopiedEntries bounds their number.
	maxCopiedEntries = 500_000
	// page is the unit of allocated memory, in bytes.
	page = 4096
)

// copies adds a copy of each folder, which is empty if the image lacks the folder, and returns its size in
// memory, in bytes.
func (w *layerWriter) copies(folders []folder) []int64 {
	sizes := make([]int64, len(folders))
	for n, f := range folders {
		if w.err != nil {
			return nil
		}

		if len(f.names) > 0 {
			w.point(path.Dir(f.path))
		}

		mode, has, err := w.view.stat(f.path)
		switch {
		case err != nil:
			w.err = err
		case !has || !mode.IsDir():
			w.addEntry(tar.Header{Name: copyOf(n), Typeflag: tar.TypeDir, Mode: 0o755}, nil)
		default:
			sizes[n], w.err = w.copy(f.path, copyOf(n))
		}
	}

	return sizes
}

// copy adds the contents of a folder under another name.
func (w *layerWriter) copy(from, to string) (int64, error) {
	in, err := w.view.tree(from)
	if err != nil {
		return 0, err
	}
	defer in.Close()

	size, entries := int64(0), 0

	for r := tar.NewReader(in); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return size, nil
		}

		if err != nil {
			return size, err
		}

		size += (h.Size + page - 1) / page * page
		if entries++; entries > maxCopiedEntries || size > maxCopied {
			return size, fault.Field("image", "%s has more than %d files or %d bytes; name a smaller folder",
				from, maxCopiedEntries, int64(maxCopied))
		}

		if err := w.entry(r, h, path.Base(from), strings.TrimPrefix(to, "/")); err != nil {
			return size, fmt.Errorf("%s of the image: %w", h.Name, err)
		}
	}
}

// entry adds an entry of a tree under its new name. It skips devices and pipes.
func (w *layerWriter) entry(r io.Reader, h *tar.Header, base, to string) error {
	switch h.Typeflag {
	case tar.TypeLink:
		h.Linkname = to + strings.TrimPrefix(path.Clean(h.Linkname), base)
	case tar.TypeReg, tar.TypeDir, tar.TypeSymlink:
	default:
		return nil
	}

	h.Name = to + strings.TrimPrefix(path.Clean(h.Name), base)
	// programs of the sandbox get no rights from mode bits or attributes
	h.Mode &= 0o1777

	h.PAXRecords, h.AccessTime, h.ChangeTime, h.Format = nil, time.Time{}, time.Time{}, tar.FormatPAX
	if err := w.tar.WriteHeader(h); err != nil {
		return err
	}

	_, err := io.Copy(w.tar, r)

	return err
}

// firstNoFolder returns the first part of an absolute path that exists in the image and is not a folder,
// and its type; "": none.
func firstNoFolder(v view, p string) (string, fs.FileMode, error) {
	at := ""
	for part := range strings.SplitSeq(strings.Trim(p, "/"), "/") {
		at += "/" + part

		mode, has, err := v.stat(at)
		switch {
		case err != nil || !has:
			return "", 0, err
		case !mode.IsDir():
			return at, mode.Type(), nil
		}
	}

	return "", 0, nil
}
