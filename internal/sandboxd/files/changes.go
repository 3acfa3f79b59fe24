package files

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// beforeStart bounds how long before sandboxd's start the root file system is made.
const beforeStart = time.Minute

// markTimeout bounds the wait for a time of change that differs. A tick of the kernel takes at most 10 ms.
const markTimeout = 10 * time.Second

// MaxChangedBytes bounds the files of changed folders in a tar, beside those of the home.
const MaxChangedBytes = 2 << 30

// maxChangedFiles bounds the files that a list of changes looks at. Folders beyond it do not fit a tar.
const maxChangedFiles = maxEntries / 2

// Mark returns a time that separates changes: every file that changed before the call has an earlier time of
// change (ctime), and none that changes after it has an earlier one.
//
// The kernel stamps changes with a clock that may stand still for a tick, up to 10 ms. Mark changes a file of
// its own until that file's time differs. The first time is not before any earlier one, so the new time is
// after all of them; and no stamp goes back. From Linux 6.13 the second change of a file whose time was read
// gets a new time at once, which bounds the times of all later changes from below (multigrain timestamps).
// Before it, the wait is the rest of the tick.
func Mark() (time.Time, error) {
	fd, err := unix.MemfdCreate("mark", unix.MFD_CLOEXEC)
	if err != nil {
		return time.Time{}, fmt.Errorf("make a file: %w", err)
	}
	defer unix.Close(fd)

	first, err := changeTime(fd)
	if err != nil {
		return time.Time{}, err
	}

	for deadline := time.Now().Add(markTimeout); time.Now().Before(deadline); time.Sleep(100 * time.Microsecond) {
		if err := unix.Fchmod(fd, 0o600); err != nil {
			return time.Time{}, fmt.Errorf("change a file: %w", err)
		}

		at, err := changeTime(fd)
		if err != nil || at.After(first) {
			return at, err
		}
	}

	return time.Time{}, fmt.Errorf("a file's time of change stays %s for %s", first, markTimeout)
}

func changeTime(fd int) (time.Time, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return time.Time{}, fmt.Errorf("read a file's time of change: %w", err)
	}

	return time.Unix(st.Ctim.Unix()), nil
}

// Changes lists what has changed in the given folders of the root file system since a Mark: the files and
// folders in them, each once. It leaves out the folders in except, and mounts. It does not follow links.
//
// The root file system is an overlay. A file's time of change (ctime) is set by the kernel alone, and an
// image's files are older than the sandbox. A change below a folder copies the folder up first, which
// changes its time too: an older folder has no changes.
func Changes(root string, folders, except []string, since time.Time) ([]wire.Change, error) {
	c := &changes{since: since, budget: maxChangedFiles}

	var st unix.Stat_t
	if err := unix.Lstat(root, &st); err != nil {
		return nil, err
	}

	c.dev = st.Dev
	// what is around an exception is listed one by one
	for _, p := range except {
		for p = path.Dir(p); p != "/" && !slices.Contains(folders, p); p = path.Dir(p) {
			folders = append(folders, p)
		}
	}

	listed := append(slices.Clone(folders), except...)

	for _, folder := range folders {
		d, err := Places{root}.dir(path.Join(root, folder), false)
		if err != nil {
			// no folder in this image
			continue
		}

		c.list(d, folder, listed)
		d.close()
	}

	return c.all, nil
}

type changes struct {
	since time.Time

	// device of the root file system's folders
	dev uint64

	// files that may still be looked at
	budget int
	all    []wire.Change
}

// list adds the changed entries of a folder, except the listed ones. A folder that cannot be listed, or has too
// many entries, is added itself: no agent can make the list fail.
func (c *changes) list(d *dir, at string, listed []string) {
	names, err := d.names(maxEntries)
	if err != nil {
		c.all = append(c.all, wire.Change{Path: at})
		return
	}

	slices.Sort(names)

	for _, name := range names {
		p := path.Join(at, name)
		if slices.Contains(listed, p) {
			continue
		}

		if len(c.all) >= wire.MaxChanges {
			return
		}

		c.one(d, name, p)
	}
}

// one adds the entry if it has changed.
func (c *changes) one(d *dir, name, p string) {
	st, err := d.stat(name)

	switch {
	case err != nil:
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		if !c.isOlder(&st, 0) {
			c.all = append(c.all, wire.Change{Path: p})
		}
	case st.Dev == c.dev:
		c.folder(d, name, p)
	}
}

// folder adds the folder if it or something below it has changed.
func (c *changes) folder(d *dir, name, p string) {
	if !c.changed(d, name, 0) {
		return
	}

	sub, err := d.sub(name)
	if err != nil {
		return
	}
	defer sub.close()

	m := newMeter(MaxChangedBytes)
	w := newWalker(func(d *dir, name, rel string, st *unix.Stat_t) error {
		if err := readable(d, name, st); err != nil {
			return err
		}

		return m.visit(d, name, rel, st)
	})
	w.budget = c.budget

	err = w.tree(sub, "", 0)
	c.budget = w.budget
	c.all = append(c.all, wire.Change{Path: p, Folder: err == nil, Bytes: m.bytes})
}

// changed reports whether a folder, or something below it, has changed.
func (c *changes) changed(d *dir, name string, depth int) bool {
	st, err := d.stat(name)
	if err != nil || st.Mode&unix.S_IFMT == unix.S_IFDIR && st.Dev != c.dev {
		return false
	}

	if !c.isOlder(&st, 0) {
		return true
	}

	if st.Mode&unix.S_IFMT != unix.S_IFDIR || c.isOlder(&st, beforeStart) || depth > maxDepth {
		return false
	}

	sub, err := d.sub(name)
	if err != nil {
		return false
	}
	defer sub.close()

	names, err := sub.names(c.budget)
	c.budget -= len(names)

	if err != nil {
		// below a folder that this user cannot enter it has changed nothing
		_, err := sub.stat(".")
		return !errors.Is(err, fs.ErrPermission)
	}

	return slices.ContainsFunc(names, func(n string) bool { return c.changed(sub, n, depth+1) })
}

// isOlder reports whether a file has not changed since the mark, less the margin.
func (c *changes) isOlder(st *unix.Stat_t, margin time.Duration) bool {
	return time.Unix(st.Ctim.Unix()).Before(c.since.Add(-margin))
}

// readable returns an error for a regular file that this user cannot read. Its own files it can.
func readable(d *dir, name string, st *unix.Stat_t) error {
	if st.Mode&unix.S_IFMT != unix.S_IFREG || int(st.Uid) == unix.Geteuid() {
		return nil
	}

	f, err := d.open(name, unix.O_RDONLY, 0)
	if err != nil {
		return err
	}

	return f.Close()
}
