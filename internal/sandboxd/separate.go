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
	"github.com/rolloutd/rolloutd/internal/sandboxd/runas"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// Capabilities that sandboxd keeps. Separate needs all others, and drops them at its end.
const (
	kept = 1<<unix.CAP_SETUID | 1<<unix.CAP_SETGID | 1<<unix.CAP_KILL
	// passed is the bounding set: the capabilities that package prestart gets by exec, to change the user and
	// to empty that set.
	passed = 1<<unix.CAP_SETUID | 1<<unix.CAP_SETGID | 1<<unix.CAP_SETPCAP | process.VerifierCapabilities
	// keptOfRoot is added if the agent is user 0: sandboxd can inspect a process only if it has the
	// process's capabilities.
	keptOfRoot = 1 << unix.CAP_NET_BIND_SERVICE
)

// Separate prepares a sandbox with separate users: the folders get their owners, further user namespaces
// are forbidden, and sandboxd drops the capabilities that it does not need. The user namespace must map ids
// for sandboxd, which has every capability in it, the agent and the verifier. Separate is called once,
// before the first process starts, by a binary without cgo.
//
// In a verifier's sandbox it also starts the place of the work; without one the returned Place is nil.
func Separate(o Separation) (*Place, error) {
	if err := giveFolders(o.Agent, o.Workdir.Locate(wire.AgentWorkdir)); err != nil {
		return nil, err
	}

	limited, err := forbidUserNamespaces()
	if err != nil {
		return nil, fmt.Errorf("forbid user namespaces: %w", err)
	}

	var place *Place
	if o.Filter != nil {
		if place, err = o.startPlace(); err != nil {
			return nil, fmt.Errorf("place of the work: %w", err)
		}
	}

	if err := o.confine(); err != nil {
		return nil, err
	}

	if !limited {
		err = checkUserNamespaces()
	}

	return place, err
}

// Separation describes how Separate separates.
type Separation struct {
	Agent   process.Agent
	Workdir wire.Workdir
	// Filter is the system call filter of a verifier's sandbox in the kernel's format, which is set when
	// the place of the work exists; nil: the sandbox is not a verifier's, and has its filter already.
	Filter []byte
	// The rest is for processes of the work, see Options.
	StartIn wire.Workdir
	Env     wire.BaseEnv
	Cgroups []*os.File
	Cgroup  *os.File

	// most processes and threads of a user; 0: no limit
	Processes uint64
}

// confine drops the capabilities of this process that it no longer needs, and sets the filter.
func (o Separation) confine() error {
	own, bounding := uint32(kept), uint32(passed)
	if o.Agent.IsRoot() {
		own, bounding = own|keptOfRoot, bounding|process.RootCapabilities
	}

	if err := dropCapabilities(own, bounding); err != nil {
		return err
	}

	if o.Filter == nil {
		return nil
	}

	return setFilter(o.Filter)
}

// setFilter sets a system call filter in every thread.
func setFilter(program []byte) error {
	n := len(program) / int(unsafe.Sizeof(unix.SockFilter{}))
	if n == 0 {
		return errors.New("the system call filter is empty")
	}

	instructions := make([]unix.SockFilter, n)
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&instructions[0])), len(program)), program)
	filter := unix.SockFprog{Len: uint16(n), Filter: &instructions[0]}

	_, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&filter)))
	if errno != 0 {
		return fmt.Errorf("system call filter: %w", errno)
	}

	return nil
}

// forbidUserNamespaces makes the kernel refuse them, in addition to the system call filter. It is false in
// a container, where the file is missing, read-only or another user's: there only the filter refuses them.
func forbidUserNamespaces() (bool, error) {
	err := os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0)
	if errors.Is(err, unix.EROFS) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return false, nil
	}

	return err == nil, err
}

// checkUserNamespaces checks that the system call filter refuses user namespaces. The kernel's own error
// would be EINVAL, since this process has several threads.
func checkUserNamespaces() error {
	if refused := unix.Unshare(unix.CLONE_NEWUSER); !errors.Is(refused, unix.EPERM) {
		return fmt.Errorf("the system call filter does not refuse user namespaces (%w), and their limit cannot be set",
			refused)
	}

	return nil
}

// MakeFolders creates the folders that Separate gives to the agent and the verifier, and sets the modes of
// those that a container engine mounts with the image's modes. The control socket is in control, which only
// this user can enter.
func MakeFolders(control string, workdir wire.Workdir) error {
	for _, path := range []string{
		workdir.Locate(wire.AgentWorkdir), wire.VerifierHome, wire.VerifierTests, wire.VerifierLogs, wire.VerifierRun,
	} {
		if err := os.MkdirAll(path, 0o755); err != nil {
			return err
		}
	}

	for path, mode := range map[string]os.FileMode{
		"/tmp":             0o777 | os.ModeSticky,
		"/var/tmp":         0o777 | os.ModeSticky,
		"/run":             0o755,
		wire.AgentHome:     0o755,
		"/verifier":        0o755,
		control:            0o700,
		wire.VerifierHome:  0o700,
		wire.VerifierTests: 0o700,
		wire.VerifierLogs:  0o700,
		wire.VerifierRun:   0o700,
	} {
		if err := os.Chmod(path, mode); err != nil {
			return err
		}
	}

	return nil
}

// giveFolders sets the owners of the folders that the driver has created.
func giveFolders(agent process.Agent, workdir string) error {
	graded, err := filepath.Glob(wire.AgentGraded + "/*")
	if err != nil {
		return err
	}

	if len(graded) > 0 {
		graded = append(graded, wire.AgentGraded)
	}

	as, verifier := agent.Account(), agent.VerifierID()

	// the agent's changes elsewhere can be made again with its rights
	if err := giveTree(as.UID, as.GID, wire.AgentChanged); err != nil {
		return err
	}

	if err := give(as.UID, as.GID, append(graded, wire.AgentHome, workdir, "/run")...); err != nil {
		return err
	}

	// Its owner could remove what others make there. It may be the workdir, or a graded folder.
	if err := give(os.Getuid(), os.Getgid(), wire.Tmp); err != nil {
		return err
	}

	if err := give(verifier, verifier, wire.VerifierHome, wire.VerifierLogs); err != nil {
		return err
	}

	// an image of the verifier's own may have folders of the tests, into which they are unpacked
	if err := giveTree(verifier, verifier, wire.VerifierTests); err != nil {
		return err
	}

	if err := os.Mkdir(runas.Shims, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}

	if err := os.Chmod(wire.VerifierRun, 0o710); err != nil {
		return err
	}

	return give(os.Getuid(), verifier, wire.VerifierRun)
}

// giveTree gives a folder, if it exists, and all folders in it, so that their owner can change what is there. Files stay:
// they are replaced as a whole.
func giveTree(uid, gid int, folder string) error {
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}

		return give(uid, gid, path)
	})

	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}

	return err
}

func give(uid, gid int, paths ...string) error {
	for _, path := range paths {
		if err := os.Chown(path, uid, gid); err != nil {
			return err
		}
	}

	return nil
}

// dropCapabilities drops all capabilities of sandboxd, in every thread, except those in kept, and of its
// children except those in passed.
func dropCapabilities(kept, passed uint32) error {
	for c := uintptr(0); c < 64; c++ {
		has, _, errno := unix.RawSyscall(unix.SYS_PRCTL, unix.PR_CAPBSET_READ, c, 0)
		if errno != 0 {
			// past the last one
			break
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
	// whose programs get capabilities only by the ambient set
	if os.Getuid() != 0 {
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
