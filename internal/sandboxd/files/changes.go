package files

import (
	"path"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// Times of the root file system.
const (
	// a file system's clock is that much behind, at most
	clockTick = 10 * time.Millisecond

	// The root file system is made that long before sandboxd starts, at most.
	beforeStart = time.Minute
)

// MaxChangedBytes bounds the files of changed folders in a tar, beside those of the home.
const MaxChangedBytes = 2 << 30

// maxChangedFiles bounds the files that a list of changes looks at. Folders beyond it do not fit a tar.
const maxChangedFiles = maxEntries / 2

// Changes lists what has changed in the given folders of the root file system since a time: the files and
// folders in them, each once. It leaves out the folders in except, and mounts. It does not follow links.
//
// The root file system is an overlay. A file's time of change (ctime) is set by the kernel alone, and an
// image's files are older than the sandbox. A change below a folder copies the folder up first, which
// changes its time too: an older folder has no changes.
func Changes(root string, folders, except []string, since time.Time) ([]wire.Change, error) {
	c := &changes{since: since.Add(-clockTick), left: maxChangedFiles}

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

	// of the root file system's folders
	dev uint64

	// files that may still be looked at
	left int
	all  []wire.Change
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
	w.left = c.left

	err = w.tree(sub, "", 0)
	c.left = w.left
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

	names, err := sub.names(c.left)
	c.left -= len(names)

	if err != nil {
		return true
	}

	return slices.ContainsFunc(names, func(n string) bool { return c.changed(sub, n, depth+1) })
}

// isOlder reports whether a file has not changed since the time, less the margin.
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
