package runas

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/sys/unix"
)

// A check writes an input into a file that only its owner can read, as mkdtemp and tmp_path of pytest make them, and names
// it to a program of the work. In one container both have one user; here the file is handed over.

// maxHandedOver bounds the entries of folders that one start of a program hands over.
const maxHandedOver = 10_000

// Rights of the agent's user, who is none of the group.
const (
	mayEnter = 0o001

	// files of others cannot be removed or replaced
	mayAdd = 0o1003

	mayUseFolder = 0o1007
	mayUseFile   = 0o006
	mayReadFile  = 0o004
)

// temporary finds paths below the temporary folders in a text, such as --in=/tmp/x or code.
var temporary = regexp.MustCompile(`(?:/tmp|/var/tmp|/dev/shm)/[^\s"'` + "`" + `=:,;()<>|&]+`)

// handOver lets the agent's user read and write the temporary files of this user that a request names, and those of its
// folder. A file that a variable names it may only read: the check may export where it keeps its own results. Files that
// nothing names keep their modes. What cannot be handed over is left: the program then says so.
func handOver(r Request) {
	left := maxHandedOver
	use := func(fd int) { left = handOverEntry(fd, left) }

	for _, text := range append([]string{r.Dir}, r.Argv...) {
		if !strings.HasPrefix(text, "/") && isBelowTemporary(r.Dir) {
			text = filepath.Join(r.Dir, text) + " " + text
		}

		handOverNamed(text, use)
	}

	for _, variable := range r.Env {
		handOverNamed(variable, show)
	}
}

// handOverNamed hands over what a text names, each by the function.
func handOverNamed(text string, hand func(fd int)) {
	for _, at := range temporary.FindAllString(text, -1) {
		handOverPath(filepath.Clean(at), hand)
	}
}

func isBelowTemporary(at string) bool {
	return temporary.MatchString(at+"/") && temporary.FindString(at) == at
}

// handOverPath hands over what is at a path by the function. Of the folders on the way, the last one may get new files. It
// follows no link.
func handOverPath(at string, hand func(fd int)) {
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
				allow(folder, mayAdd)
			}

			unix.Close(folder)

			if folder = next; next < 0 {
				return
			}

			switch len(parts) - n {
			case 1:
				hand(folder)
			case 2:
				allow(folder, mayAdd)
			default:
				allow(folder, mayEnter)
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
		allow(fd, mayAdd)
	}
}

// handOverEntry hands over a file, or a folder with all that this user has in it. It returns how many entries may still be
// handed over.
func handOverEntry(fd, left int) int {
	var st unix.Stat_t
	if left--; left < 0 || unix.Fstat(fd, &st) != nil {
		return left
	}

	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		allow(fd, mayUseFile|st.Mode>>6&mayEnter)
		return left
	case unix.S_IFDIR:
		allow(fd, mayUseFolder)
	default:
		return left
	}

	entries, _ := os.ReadDir(descriptor(fd))
	for _, e := range entries {
		if e.Type() != 0 && e.Type() != fs.ModeDir {
			continue
		}

		if entry := ownEntry(fd, e.Name()); entry >= 0 {
			left = handOverEntry(entry, left)
			unix.Close(entry)
		}
	}

	return left
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
