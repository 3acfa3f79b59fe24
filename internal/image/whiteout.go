package image

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// whiteout hides a file of lower layers, or with the opaque name all their files in the folder. It does not
// affect files of this layer.
func (u *unpacker) whiteout(name string) error {
	dir, err := u.root.Open(path.Dir(name))
	if err != nil {
		return err
	}
	defer dir.Close()

	if path.Base(name) == opaqueName {
		if path.Dir(name) == "." {
			return fault.New(fault.Invalid, "the root of a layer cannot be opaque")
		}

		return unix.Fsetxattr(int(dir.Fd()), u.owner.opaque(), []byte("y"), 0)
	}

	hidden := strings.TrimPrefix(path.Base(name), whiteoutPrefix)
	if hidden == "" || hidden == "." || hidden == ".." || strings.HasPrefix(hidden, whiteoutPrefix) {
		return fault.New(fault.Invalid, "it is not a whiteout")
	}

	if _, err := u.root.Lstat(path.Join(path.Dir(name), hidden)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}

	err = unix.Mknodat(int(dir.Fd()), hidden, unix.S_IFCHR, 0)
	if errors.Is(err, unix.EPERM) {
		return fault.Wrap(fault.Unavailable, &os.PathError{
			Op:   "mknod",
			Path: hidden,
			Err:  err,
		}, "whiteouts by an ordinary user need Linux 5.8")
	}

	return err
}
