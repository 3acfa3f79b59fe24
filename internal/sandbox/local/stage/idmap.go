package stage

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// idMap returns the descriptor of a user namespace that maps ids from 0 on to those of the host from base on. A mount takes the map from it.
// No process is left in it.
func idMap(base, ids int) (int, error) {
	mapping := []syscall.SysProcIDMap{{ContainerID: 0, HostID: base, Size: ids}}
	pid, err := syscall.ForkExec("/proc/self/exe", []string{Command}, &syscall.ProcAttr{Sys: &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWUSER, UidMappings: mapping, GidMappings: mapping,
		Ptrace: true, // it stops before its first instruction
	}})
	if err != nil {
		return -1, err
	}
	fd, err := unix.Open(fmt.Sprintf("/proc/%d/ns/user", pid), unix.O_RDONLY|unix.O_CLOEXEC, 0)
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
