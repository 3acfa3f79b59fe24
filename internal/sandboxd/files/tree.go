package files

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// visit is called for each file of a tree with its path relative to the root, for a directory before its contents.
type visit func(d *dir, name, rel string, st *unix.Stat_t) error

// walker visits a tree. It holds the names of a folder in memory during the visit of its contents, so one
// bound covers the names of the whole tree: nested folders with the maximum of names each would fill the
// memory.
type walker struct {
	visit visit

	// names that may still be listed
	budget int

	// name at the top that is not visited; "": none
	skip string
}

func newWalker(v visit) *walker { return &walker{visit: v, budget: maxEntries} }

// tree visits everything below d in the order of names. It skips files that vanish meanwhile, sockets,
// FIFOs and devices. It opens directories without read permission for the time of the visit, so that an
// agent cannot hide files from collection by a chmod.
func (w *walker) tree(d *dir, rel string, depth int) error {
	if depth > maxDepth {
		return fault.New(fault.Invalid, "directories are nested deeper than %d: %q", maxDepth, path.Dir(rel))
	}

	names, err := d.names(w.budget)
	if fault.Is(err, fault.OutOfDisk) {
		return fault.New(fault.OutOfDisk, "more than %d files and folders", maxEntries)
	}

	if err != nil {
		return err
	}

	w.budget -= len(names)
	slices.Sort(names)

	for _, name := range names {
		if depth == 0 && name == w.skip {
			continue
		}

		if err := w.one(d, name, path.Join(rel, name), depth); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}

	return nil
}

func (w *walker) one(d *dir, name, rel string, depth int) error {
	st, err := d.stat(name)
	if err != nil {
		return err
	}

	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG, unix.S_IFLNK:
		return w.visit(d, name, rel, &st)
	case unix.S_IFDIR:
	default:
		return nil
	}

	sub, err := d.sub(name)
	if err != nil {
		return err
	}
	defer sub.close()

	if err := w.visit(d, name, rel, &st); err != nil {
		return err
	}

	if st.Mode&0o500 != 0o500 {
		if err := sub.chmod(st.Mode | 0o700); err != nil {
			return err
		}
		defer func() { _ = sub.chmod(st.Mode) }()
	}

	return w.tree(sub, rel, depth+1)
}

// openAnyway opens a regular file for reading, one of our own whatever its mode.
func (d *dir) openAnyway(name string, st *unix.Stat_t) (*os.File, error) {
	f, err := d.open(name, unix.O_RDONLY, 0)
	if err == nil || !errors.Is(err, fs.ErrPermission) {
		return f, err
	}

	handle, err := d.open(name, unix.O_PATH, 0)
	if err != nil {
		return nil, err
	}
	defer handle.Close()

	fd := int(handle.Fd())
	if err := chmodFD(fd, st.Mode|0o400); err != nil {
		return nil, err
	}

	defer func() { _ = chmodFD(fd, st.Mode) }()

	return d.open(name, unix.O_RDONLY, 0)
}
