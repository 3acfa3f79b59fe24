package prestart

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// CanRefuseExec reports whether the kernel has Landlock, by which a process can be kept from executing
// files of chosen folders. A mount option for this (noexec) would also make `test -x` false for the files
// there.
func CanRefuseExec() bool {
	version, _, errno := unix.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	return errno == 0 && version >= 1
}

// refuseExec keeps this thread, its programs and their children from executing files below the folders.
// Landlock has only rules that allow, so everything beside the folders is allowed.
func refuseExec(folders []string) error {
	attr := unix.LandlockRulesetAttr{Handled_access_fs: unix.LANDLOCK_ACCESS_FS_EXECUTE}
	// Only the first field: kernels refuse a longer struct than they know if the rest is not zero.
	fd, _, errno := unix.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), 8, 0)
	if errno != 0 {
		return errno
	}

	ruleset := int(fd)
	defer unix.Close(ruleset)

	if err := allowBeside("/", folders, ruleset); err != nil {
		return err
	}

	if _, _, errno := unix.RawSyscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(ruleset), 0, 0); errno != 0 {
		return errno
	}

	return nil
}

// allowBeside allows to execute what is below the folder at, except below the refused ones.
func allowBeside(at string, refused []string, ruleset int) error {
	entries, err := os.ReadDir(at)
	if err != nil {
		return err
	}

	for _, e := range entries {
		path := filepath.Join(at, e.Name())

		above := func(r string) bool { return strings.HasPrefix(r, path+"/") }
		switch {
		case slices.Contains(refused, path) || e.Type()&fs.ModeSymlink != 0:
			// what a link names has a rule of its own, or none
			continue
		case slices.ContainsFunc(refused, above):
			err = allowBeside(path, refused, ruleset)
		default:
			err = allowExec(path, ruleset)
		}

		if err != nil {
			return err
		}
	}

	return nil
}

func allowExec(path string, ruleset int) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EACCES) {
		// it is gone, or not for this user
		return nil
	}

	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}

	defer unix.Close(fd)

	attr := unix.LandlockPathBeneathAttr{Allowed_access: unix.LANDLOCK_ACCESS_FS_EXECUTE, Parent_fd: int32(fd)}
	_, _, errno := unix.RawSyscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH,
		uintptr(unsafe.Pointer(&attr)), 0, 0, 0)
	// EBADFD: the file system is of a kind that holds no programs, as in /proc
	if errno != 0 && errno != unix.EBADFD {
		return fmt.Errorf("%s: %w", path, errno)
	}

	return nil
}
