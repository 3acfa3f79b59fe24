package files

import (
	"strings"

	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// Bounds of a packed or unpacked tree, besides its bytes: storing a tree costs more than the contents of its files.
const (
	// files of every kind, folders and hard links
	maxEntries = 250_000

	// bytes of all names, each relative to the root of the tree
	maxNames = 64 << 20

	// bytes of one name
	maxName = 1024
)

// meter measures a tree. A file counts with its length, since an archive stores a sparse one in full. A
// hard link counts only as an entry, since it is stored as a link.
type meter struct {
	limit, bytes int64
	entries      int
	names        int64
	inodes       map[inode]string
}

type inode struct{ dev, ino uint64 }

func newMeter(limit int64) *meter { return &meter{limit: limit, inodes: map[inode]string{}} }

func (m *meter) visit(_ *dir, _, rel string, st *unix.Stat_t) error {
	if err := m.entry(rel); err != nil {
		return err
	}

	_, err := m.file(rel, st)

	return err
}

// entry counts a name. Too many names are a fault.OutOfDisk; a name that is too long or too deep is a fault.Invalid.
func (m *meter) entry(rel string) error {
	if len(rel) > maxName {
		return fault.New(fault.Invalid, "a path is longer than %d bytes: %.100q…", maxName, rel)
	}

	if strings.Count(rel, "/") > maxDepth {
		return fault.New(fault.Invalid, "directories are nested deeper than %d: %.100q…", maxDepth, rel)
	}

	if m.entries++; m.entries > maxEntries {
		return fault.New(fault.OutOfDisk, "more than %d files and folders", maxEntries)
	}

	if m.names += int64(len(rel)); m.names > maxNames {
		return fault.New(fault.OutOfDisk, "names of files hold more than %d bytes", maxNames)
	}

	return nil
}

// file counts the contents of a regular file, or returns the name under which they were counted before.
func (m *meter) file(rel string, st *unix.Stat_t) (first string, err error) {
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return "", nil
	}

	if st.Nlink > 1 {
		key := inode{st.Dev, st.Ino}
		if first, ok := m.inodes[key]; ok {
			return first, nil
		}

		m.inodes[key] = rel
	}

	return "", m.content(rel, st.Size)
}

// content counts bytes of a file. Too many are a fault.OutOfDisk.
func (m *meter) content(rel string, size int64) error {
	if size > m.limit-m.bytes {
		return fault.New(fault.OutOfDisk, "files hold more than %d bytes (at %q)", m.limit, rel)
	}

	m.bytes += size

	return nil
}
