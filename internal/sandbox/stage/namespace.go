package stage

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// idMap returns the descriptor of a user namespace that maps ids from 0 on to those of the host from base on. A mount takes the map from it.
// No process is left in it.
func idMap(base, ids int) (int, error) {
	mapping := []syscall.SysProcIDMap{{ContainerID: 0, HostID: base, Size: ids}}
	return namespace("user", "/proc/self/exe", &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER, UidMappings: mapping, GidMappings: mapping})
}

// CgroupNamespace returns a cgroup namespace whose root is a cgroup of version 2, given by its open folder. No process is left in either.
func CgroupNamespace(program string, folder *os.File) (*os.File, error) {
	fd, err := namespace("cgroup", program, &syscall.SysProcAttr{
		UseCgroupFD: true, CgroupFD: int(folder.Fd()), Unshareflags: unix.CLONE_NEWCGROUP,
	})
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "cgroup namespace"), nil
}

// namespace returns the descriptor of a namespace of a process that is started with the attributes, and ends it.
func namespace(kind, program string, attr *syscall.SysProcAttr) (int, error) {
	attr.Ptrace = true // it stops before its first instruction
	pid, err := syscall.ForkExec(program, []string{Command}, &syscall.ProcAttr{Sys: attr})
	if err != nil {
		return -1, err
	}
	fd, err := unix.Open(fmt.Sprintf("/proc/%d/ns/%s", pid, kind), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	_ = unix.Kill(pid, unix.SIGKILL)
	var status unix.WaitStatus
	for {
		_, e := unix.Wait4(pid, &status, 0, nil)
		if e == unix.EINTR || e == nil && !status.Exited() && !status.Signaled() {
			continue
		}
		return fd, err
	}
}
