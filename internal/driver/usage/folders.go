package usage

import (
	"slices"

	"golang.org/x/sys/unix"
)

// fullBelow is the free space, in bytes, below which a file system counts as full.
const fullBelow = 64 << 10

// FullFolders are the mount points below root, an open folder, whose file systems have no room: of several with one
// file system the first. No link is followed.
func FullFolders(root int, folders []string) []string {
	var (
		full []string
		seen []uint64
	)

	for _, folder := range folders {
		device, isFull := fileSystemState(root, folder)
		if isFull && !slices.Contains(seen, device) {
			full = append(full, folder)
		}

		seen = append(seen, device)
	}

	return full
}

// fileSystemState returns the file system of a folder below root, and whether it has no room for data or for another
// file.
func fileSystemState(root int, folder string) (device uint64, isFull bool) {
	how := unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_SYMLINKS,
	}

	fd, err := unix.Openat2(root, "."+folder, &how)
	if err != nil {
		return 0, false
	}
	defer unix.Close(fd)

	var (
		st    unix.Stat_t
		space unix.Statfs_t
	)
	if unix.Fstat(fd, &st) != nil || unix.Fstatfs(fd, &space) != nil || space.Blocks == 0 {
		return 0, false
	}

	return st.Dev, space.Bavail*uint64(space.Bsize) < fullBelow || space.Files > 0 && space.Ffree == 0
}
