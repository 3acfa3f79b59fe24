package runas

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// A check writes an input into a file that only its owner can read, as mkdtemp and tmp_path of pytest make them, and names
// it to a program of the work. In one container both have one user; here the file is handed over.

// maxHandedOver bounds the entries of folders that one start of a program hands over.
const maxHandedOver = 10_000

// Rights of the agent's user, who is none of the group.
const (
	mayEnter     = 0o001
	mayAdd       = 0o003
	mayUseFolder = 0o007
	mayUseFile   = 0o006
	mayReadFile  = 0o004

	mayWrite = 0o002
)

// sticky is the mode of a folder in which files of others cannot be removed or replaced.
const sticky = unix.S_ISVTX

// temporary finds paths below the temporary folders in a text, such as --in=/tmp/x or code.
var temporary = regexp.MustCompile(`(?:/tmp|/var/tmp|/dev/shm)/[^\s"'` + "`" + `=:,;()<>|&]+`)

// handOver lets the agent's user read and write the temporary files of this user that a request names, and those of its
// folder. A file that a variable names it may only read: the check may export where it keeps its own results. Files that
// nothing names keep their modes. What cannot be handed over is left: the program then says so.
//
// In a folder whose every file was handed over the program may also remove and replace them: many save a file under another
// name and rename it.
func handOver(r Request) {
	h := handover{left: maxHandedOver, folders: map[inode]folder{}}
	defer h.finish()

	for _, text := range append([]string{r.Dir}, r.Argv...) {
		if !strings.HasPrefix(text, "/") && isBelowTemporary(r.Dir) {
			text = filepath.Join(r.Dir, text) + " " + text
		}

		h.named(text, h.entry)
	}

	for _, variable := range r.Env {
		h.named(variable, show)
	}
}

// handover is what handOver has done for a request.
type handover struct {
	// entries of folders that may still be handed over
	left int

	// folders on the way to what is handed over
	folders map[inode]folder
}

type inode struct{ device, number uint64 }

type folder struct {
	fd, depth int
	rights    uint32
}

// named hands over what a text names, each by the function.
func (h *handover) named(text string, hand func(fd int)) {
	for _, at := range temporary.FindAllString(text, -1) {
		h.path(filepath.Clean(at), hand)
	}
}

func isBelowTemporary(at string) bool {
	return temporary.MatchString(at+"/") && temporary.FindString(at) == at
}

// path hands over what is at a path by the function. Of the folders on the way, the last one may get new files. It follows
// no link.
func (h *handover) path(at string, hand func(fd int)) {
	for _, top := range temporaryFolders {
		below, ok := strings.CutPrefix(at, top+"/")
		if !ok {
			continue
		}

		folder, err := unix.Open(top, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return
		}

		parts := strings.Split(below, "/")
		for n, part := range parts {
			next := ownEntry(folder, part)
			if n > 0 && next < 0 && unix.Faccessat(folder, part, unix.F_OK, unix.AT_SYMLINK_NOFOLLOW) == unix.ENOENT {
				// the program makes the folders that are missing
				h.add(folder, n, mayAdd)
			}

			unix.Close(folder)

			if folder = next; next < 0 {
				return
			}

			switch len(parts) - n {
			case 1:
				hand(folder)
			case 2:
				h.add(folder, n+1, mayAdd)
			default:
				h.add(folder, n+1, mayEnter)
			}
		}

		unix.Close(folder)
	}
}

// show lets the agent's user read a file, or make files in a folder.
func show(fd int) {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return
	}

	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		allow(fd, mayReadFile)
	case unix.S_IFDIR:
		allow(fd, mayAdd|sticky)
	}
}

// entry hands over a file, or a folder with all that this user has in it.
func (h *handover) entry(fd int) {
	var st unix.Stat_t
	if h.left--; h.left < 0 || unix.Fstat(fd, &st) != nil {
		return
	}

	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		allow(fd, mayUseFile|st.Mode>>6&mayEnter)
		return
	case unix.S_IFDIR:
		defer allowFolder(fd, mayUseFolder)
	default:
		return
	}

	entries, _ := os.ReadDir(descriptor(fd))
	for _, e := range entries {
		if e.Type() != 0 && e.Type() != fs.ModeDir {
			continue
		}

		if entry := ownEntry(fd, e.Name()); entry >= 0 {
			h.entry(entry)
			unix.Close(entry)
		}
	}
}

// add notes a folder at a depth below a temporary folder, which gets the rights when all that the request names has been
// handed over.
func (h *handover) add(fd, depth int, rights uint32) {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return
	}

	at := inode{st.Dev, st.Ino}

	f, seen := h.folders[at]
	if !seen {
		again, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return
		}

		f = folder{fd: again, depth: depth}
	}

	f.rights |= rights
	h.folders[at] = f
}

// finish sets the modes of the folders, after those of the folders in them.
func (h *handover) finish() {
	deepestFirst := slices.SortedFunc(maps.Values(h.folders), func(a, b folder) int { return b.depth - a.depth })
	for _, f := range deepestFirst {
		allowFolder(f.fd, f.rights)
		unix.Close(f.fd)
	}
}

// allowFolder adds rights to a folder. If files can be added, it is sticky while it has what the program may not write. Both
// change at once, since another program may be at work there.
func allowFolder(fd int, rights uint32) {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return
	}

	old := st.Mode & 0o7777

	mode := old | rights
	if mode&mayWrite != 0 {
		if mode &^= sticky; hasOwn(fd) {
			mode |= sticky
		}
	}

	if mode != old {
		// a failure shows when the program is refused the folder
		_ = unix.Chmod(descriptor(fd), mode)
	}
}

// hasOwn reports whether a folder has a file of this user that the agent's user may not write, or a folder that has one. A
// folder that cannot be read counts as one that has.
func hasOwn(fd int) bool {
	entries, err := os.ReadDir(descriptor(fd))
	if err != nil {
		return true
	}

	return slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		var st unix.Stat_t

		err := unix.Fstatat(fd, e.Name(), &st, unix.AT_SYMLINK_NOFOLLOW)

		return err == nil && int(st.Uid) == os.Getuid() && st.Mode&unix.S_IFMT != unix.S_IFLNK &&
			st.Mode&(mayWrite|sticky) != mayWrite
	})
}

// ownEntry opens an entry of a folder that belongs to this user and is no link; -1: there is none.
func ownEntry(folder int, name string) int {
	fd, err := unix.Openat(folder, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1
	}

	var st unix.Stat_t
	if name != ".." && unix.Fstat(fd, &st) == nil && int(st.Uid) == os.Getuid() && st.Mode&unix.S_IFMT != unix.S_IFLNK {
		return fd
	}

	unix.Close(fd)

	return -1
}

// allow adds rights to a file.
func allow(fd int, rights uint32) {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) == nil && st.Mode&rights != rights {
		// a failure shows when the program is refused the file
		_ = unix.Chmod(descriptor(fd), st.Mode&0o7777|rights)
	}
}

// descriptor is a path of an open file that names it alone.
func descriptor(fd int) string { return fmt.Sprintf("/proc/self/fd/%d", fd) }
