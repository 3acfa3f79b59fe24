package image

import (
	"archive/tar"
	"errors"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// owner decides the owner of a store's files. Root keeps the owners of the image. For an ordinary user all
// files belong to that user, who can always change them.
type owner struct{ root bool }

// opaque is the attribute of a folder that hides the one below it.
func (o owner) opaque() string {
	if o.root {
		return "trusted.overlay.opaque"
	}

	return "user.overlay.opaque"
}

// finish sets the owner, attributes, mode and time of an open file or folder.
func (o owner) finish(f *os.File, h *tar.Header) error {
	mode := h.FileInfo().Mode() & (os.ModePerm | os.ModeSetuid | os.ModeSetgid | os.ModeSticky)
	if o.root {
		if err := f.Chown(bounded(h.Uid), bounded(h.Gid)); err != nil {
			return err
		}
	} else if mode |= 0o600; h.Typeflag == tar.TypeDir {
		mode |= 0o700
	}
	// after chown, which clears the set-user-id bit
	if err := f.Chmod(mode); err != nil {
		return err
	}

	if err := o.attributes(f, h); err != nil {
		return err
	}

	t := unix.NsecToTimeval(mtime(h).UnixNano())

	return unix.Futimes(int(f.Fd()), []unix.Timeval{t, t})
}

// link sets the owner of a symbolic link.
func (o owner) link(root *os.Root, name string, h *tar.Header) error {
	if !o.root {
		return nil
	}

	return root.Lchown(name, bounded(h.Uid), bounded(h.Gid))
}

func bounded(id int) int {
	if id < 0 || id > maxID {
		return overflowID
	}

	return id
}

const (
	xattrRecord = "SCHILY.xattr."
	// maxAttributes bounds the extended attributes of an entry, in bytes.
	maxAttributes = 64 << 10
)

// attributes sets file capabilities and user attributes. It leaves out all others, such as those of overlayfs.
func (o owner) attributes(f *os.File, h *tar.Header) error {
	size := 0

	for record, value := range h.PAXRecords {
		name, ok := strings.CutPrefix(record, xattrRecord)
		if !ok || !o.keeps(name) {
			continue
		}

		if size += len(name) + len(value); size > maxAttributes {
			return fault.New(fault.Invalid, "it has more than %d bytes of extended attributes", maxAttributes)
		}

		err := unix.Fsetxattr(int(f.Fd()), name, []byte(value), 0)
		if err != nil && !errors.Is(err, unix.ENOTSUP) && !errors.Is(err, unix.EPERM) {
			return err
		}
	}

	return nil
}

func (o owner) keeps(name string) bool {
	if strings.HasPrefix(name, "user.overlay.") {
		return false
	}

	return strings.HasPrefix(name, "user.") || o.root && name == "security.capability"
}
