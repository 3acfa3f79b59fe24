package usage

import "golang.org/x/sys/unix"

// fullBelow is the free space, in bytes, below which a file system counts as full.
const fullBelow = 64 << 10

// FullFolders are the mount points below root, an open folder, whose file systems have no room. No link is followed.
func FullFolders(root int, folders []string) []string {
	var full []string

	for _, folder := range folders {
		if isFull(root, folder) {
			full = append(full, folder)
		}
	}

	return full
}

// isFull says whether the file system mounted at a folder below root has no room for data or for another file.
func isFull(root int, folder string) bool {
	how := unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_SYMLINKS,
	}

	fd, err := unix.Openat2(root, "."+folder, &how)
	if err != nil {
		return false
	}
	defer unix.Close(fd)

	var st unix.Statfs_t
	if err := unix.Fstatfs(fd, &st); err != nil || st.Blocks == 0 {
		return false
	}

	return st.Bavail*uint64(st.Bsize) < fullBelow || st.Files > 0 && st.Ffree == 0
}
