package sandboxd

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Fill copies the contents of the folder from into the folder to, with owners, modes, times and hard links,
// and gives to those of from. It runs before anything else in the sandbox, so neither folder changes
// meanwhile. It skips devices and pipes.
func Fill(from, to string) error {
	f := filler{links: map[uint64]string{}}
	return f.folder(from, to)
}

// filler copies a tree of one file system.
type filler struct {
	// inodes with several names → first copied name
	links map[uint64]string
}

// folder copies a folder into an existing one. It sets mode and time last, since filling changes them.
func (f *filler) folder(from, to string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}

	for _, e := range entries {
		if err := f.one(filepath.Join(from, e.Name()), filepath.Join(to, e.Name())); err != nil {
			return err
		}
	}

	var st unix.Stat_t
	if err := unix.Lstat(from, &st); err != nil {
		return &fs.PathError{Op: "stat", Path: from, Err: err}
	}

	return like(to, &st)
}

func (f *filler) one(from, to string) error {
	var st unix.Stat_t
	if err := unix.Lstat(from, &st); err != nil {
		return &fs.PathError{Op: "stat", Path: from, Err: err}
	}

	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		// another folder is mounted there
		if err := os.Mkdir(to, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}

		return f.folder(from, to)
	case unix.S_IFLNK:
		return link(from, to, &st)
	case unix.S_IFREG:
		return f.file(from, to, &st)
	default:
		return nil
	}
}

func link(from, to string, st *unix.Stat_t) error {
	target, err := os.Readlink(from)
	if err == nil {
		err = os.Symlink(target, to)
	}

	switch {
	case errors.Is(err, fs.ErrExist): // a parent of a mount point
		return nil
	case err != nil:
		return err
	default:
		return like(to, st)
	}
}

func (f *filler) file(from, to string, st *unix.Stat_t) error {
	if st.Nlink > 1 {
		if first, ok := f.links[st.Ino]; ok {
			err := os.Link(first, to)
			// another folder is mounted there: it gets a copy of its own
			if !errors.Is(err, unix.EXDEV) {
				return err
			}
		}

		f.links[st.Ino] = to
	}

	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()

	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}

	_, err = io.Copy(out, in)

	return errors.Join(err, out.Close(), like(to, st))
}

// like sets the owner, the mode and the time of another file on the file at a path. It drops set-id bits.
func like(path string, st *unix.Stat_t) error {
	if err := os.Lchown(path, int(st.Uid), int(st.Gid)); err != nil {
		return err
	}

	if st.Mode&unix.S_IFMT != unix.S_IFLNK {
		if err := unix.Chmod(path, st.Mode&0o1777); err != nil {
			return &fs.PathError{Op: "chmod", Path: path, Err: err}
		}
	}

	times := []unix.Timespec{st.Atim, st.Mtim}
	if err := unix.UtimesNanoAt(unix.AT_FDCWD, path, times, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return &fs.PathError{Op: "utimes", Path: path, Err: err}
	}

	return nil
}
