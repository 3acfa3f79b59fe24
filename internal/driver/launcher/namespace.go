package launcher

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// idMap returns the descriptor of a user namespace that maps ids from 0 to the host's from base. A mount
// takes the map from it. No process stays in it.
func idMap(base, ids int) (int, error) {
	mapping := []syscall.SysProcIDMap{{ContainerID: 0, HostID: base, Size: ids}}

	return namespace("user", "/proc/self/exe", &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER,
		UidMappings: mapping,
		GidMappings: mapping,
	})
}

// CgroupNamespace returns a cgroup namespace whose root is the open version 2 cgroup. No process stays in either.
func CgroupNamespace(program string, folder *os.File) (*os.File, error) {
	fd, err := namespace("cgroup", program, &syscall.SysProcAttr{
		UseCgroupFD: true, CgroupFD: int(folder.Fd()), Unshareflags: unix.CLONE_NEWCGROUP,
	})
	if err != nil {
		return nil, err
	}

	return os.NewFile(uintptr(fd), "cgroup namespace"), nil
}

// namespace starts a process with the attributes, returns the descriptor of its namespace, and ends the process.
func namespace(kind, program string, attr *syscall.SysProcAttr) (int, error) {
	// stops before its first instruction
	attr.Ptrace = true

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
