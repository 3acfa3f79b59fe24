package sandboxd

import (
	"errors"
	"fmt"
	"io/fs"
	"math/bits"
	"os"
	"path/filepath"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/sandboxd/process"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// Capabilities that sandboxd keeps. Separate needs all others, and drops them at its end.
const (
	kept = 1<<unix.CAP_SETUID | 1<<unix.CAP_SETGID | 1<<unix.CAP_KILL
	// passed is the bounding set: the capabilities that package child gets by exec, to change the user and to empty that set.
	passed = 1<<unix.CAP_SETUID | 1<<unix.CAP_SETGID | 1<<unix.CAP_SETPCAP | process.VerifierCapabilities
	// keptOfRoot is added if the agent is user 0: sandboxd can inspect a process only if it has the process's capabilities.
	keptOfRoot = 1 << unix.CAP_NET_BIND_SERVICE
)

// Separate prepares a sandbox with separate users: the folders get their owners, further user namespaces are forbidden, and sandboxd
// drops the capabilities that it does not need. The user namespace must map ids for sandboxd, which has every capability in it, the agent
// and the verifier. Separate is called once, before the first process starts, by a binary without cgo.
func Separate(agent process.Agent) error {
	if err := giveFolders(agent); err != nil {
		return err
	}
	if err := forbidUserNamespaces(); err != nil {
		return fmt.Errorf("forbid user namespaces: %w", err)
	}
	if agent.IsRoot() {
		return dropCapabilities(kept|keptOfRoot, passed|process.RootCapabilities)
	}
	return dropCapabilities(kept, passed)
}

// forbidUserNamespaces makes the kernel refuse them, in addition to the system call filter. In a container the file is missing or
// read-only; there only the filter refuses them.
func forbidUserNamespaces() error {
	err := os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0)
	if !errors.Is(err, unix.EROFS) && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// The kernel's own error would be EINVAL, since this process has several threads.
	if refused := unix.Unshare(unix.CLONE_NEWUSER); !errors.Is(refused, unix.EPERM) {
		return fmt.Errorf("the system call filter does not refuse them (%w), and the limit cannot be set: %w", refused, err)
	}
	return nil
}

// MakeFolders creates the folders that Separate gives to the agent and the verifier, and sets the modes of those that a container engine
// mounts with the image's modes. The control socket is in control, which only this user can enter.
func MakeFolders(control string) error {
	for _, path := range []string{wire.AgentWorkdir, wire.VerifierHome, wire.VerifierTests, wire.VerifierLogs, wire.VerifierRun} {
		if err := os.MkdirAll(path, 0o755); err != nil {
			return err
		}
	}
	for path, mode := range map[string]os.FileMode{
		"/tmp": 0o777 | os.ModeSticky, "/var/tmp": 0o777 | os.ModeSticky, "/run": 0o755, wire.AgentHome: 0o755, "/verifier": 0o755, control: 0o700,
		wire.VerifierHome: 0o700, wire.VerifierTests: 0o700, wire.VerifierLogs: 0o700, wire.VerifierRun: 0o700,
	} {
		if err := os.Chmod(path, mode); err != nil {
			return err
		}
	}
	return nil
}

// giveFolders sets the owners of the folders that the driver has created.
func giveFolders(agent process.Agent) error {
	graded, err := filepath.Glob(wire.AgentGraded + "/*")
	if err != nil {
		return err
	}
	if len(graded) > 0 {
		graded = append(graded, wire.AgentGraded)
	}
	as, verifier := agent.Account(), agent.VerifierID()
	if err := give(as.UID, as.GID, append(graded, wire.AgentHome, wire.AgentWorkdir, "/run")...); err != nil {
		return err
	}
	if err := give(verifier, verifier, wire.VerifierHome, wire.VerifierTests, wire.VerifierLogs); err != nil {
		return err
	}
	if err := os.Chmod(wire.VerifierRun, 0o710); err != nil {
		return err
	}
	return give(os.Getuid(), verifier, wire.VerifierRun)
}

func give(uid, gid int, paths ...string) error {
	for _, path := range paths {
		if err := os.Chown(path, uid, gid); err != nil {
			return err
		}
	}
	return nil
}

// dropCapabilities drops all capabilities of sandboxd, in every thread, except those in kept, and of its children except those in passed.
func dropCapabilities(kept, passed uint32) error {
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
	ambient := uint32(0)
	if os.Getuid() != 0 { // whose programs get capabilities only by the ambient set
		ambient, data[0].Inheritable = passed, passed
	}
	err := everyThread(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&data[0])), 0)
	if err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	for left := ambient; left != 0; left &= left - 1 {
		c := uintptr(bits.TrailingZeros32(left))
		if err := everyThread(unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, c); err != nil {
			return fmt.Errorf("ambient set: %w", err)
		}
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
