package sandboxd

import (
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/sandboxd/process"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// Capabilities that sandboxd works with. All others, which Separate needs, are given up at its end.
const (
	kept = 1<<unix.CAP_SETUID | 1<<unix.CAP_SETGID | 1<<unix.CAP_KILL
	// passed is the bounding set: what package child gets by exec, to become another user and to empty that set.
	passed = 1<<unix.CAP_SETUID | 1<<unix.CAP_SETGID | 1<<unix.CAP_SETPCAP | process.VerifierCapabilities
)

// Separate prepares a sandbox in which sandboxd is user 0 of a user namespace that also maps wire.AgentID and
// wire.VerifierID: the folders
// get their owners, no further user namespace can be made, and sandboxd gives up all capabilities but those that it works with.
// It is called once, before the first process starts, by a binary without cgo.
func Separate() error {
	if err := giveFolders(); err != nil {
		return err
	}
	// The system call filter refuses new namespaces too; this holds where a filter has been loosened.
	if err := os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0); err != nil {
		return fmt.Errorf("forbid user namespaces: %w", err)
	}
	return dropCapabilities()
}

// giveFolders sets the owners of the folders that the driver has made.
func giveFolders() error {
	for owner, paths := range map[int][]string{
		wire.AgentID:    {wire.AgentHome, wire.AgentWorkdir, "/run"},
		wire.VerifierID: {wire.VerifierHome, wire.VerifierTests, wire.VerifierLogs},
	} {
		for _, path := range paths {
			if err := os.Chown(path, owner, owner); err != nil {
				return err
			}
		}
	}
	if err := os.Chmod(wire.VerifierRun, 0o710); err != nil {
		return err
	}
	return os.Chown(wire.VerifierRun, 0, wire.VerifierID)
}

// dropCapabilities leaves sandboxd, in every thread, the capabilities that are kept, and its children those that are passed.
func dropCapabilities() error {
	for c := uintptr(0); c < 64; c++ {
		has, _, errno := unix.RawSyscall(unix.SYS_PRCTL, unix.PR_CAPBSET_READ, c, 0)
		if errno != 0 {
			break // past the last one
		}
		if has == 0 || passed&(1<<c) != 0 {
			continue
		}
		if err := everyThread(unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, c, 0); err != nil {
			return fmt.Errorf("bounding set: %w", err)
		}
	}
	if err := everyThread(unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0); err != nil {
		return fmt.Errorf("ambient set: %w", err)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	data := [2]unix.CapUserData{{Effective: kept, Permitted: kept | passed}}
	err := everyThread(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&data[0])), 0)
	if err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	return nil
}

// everyThread makes a system call in every thread: capabilities belong to threads.
func everyThread(call, a, b, c uintptr) error {
	if _, _, errno := syscall.AllThreadsSyscall(call, a, b, c); errno != 0 {
		return errno
	}
	return nil
}
