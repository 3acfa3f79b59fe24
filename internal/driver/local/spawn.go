package local

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/driver/launcher"
)

// child is the started stage, later bwrap.
type child struct {
	pid int

	// nil: not supported by the kernel
	pidfd *os.File
}

// start starts the stage in a session of its own, so that the worker's signals do not reach the sandbox.
func (l *launch) start() (*child, error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer null.Close()

	fds := []uintptr{null.Fd(), l.log.Fd(), l.log.Fd()}
	for _, f := range l.files {
		fds = append(fds, f.Fd())
	}

	pidfd := -1

	attr := &syscall.SysProcAttr{Setsid: true, PidFD: &pidfd}
	if l.cgroup != nil {
		attr.UseCgroupFD, attr.CgroupFD = true, int(l.cgroup.Fd())
	}

	if l.private {
		attr.Unshareflags = unix.CLONE_NEWNS
	}

	if l.mapped {
		attr.Cloneflags = unix.CLONE_NEWUSER | unix.CLONE_NEWNS
		attr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}

	pid, err := syscall.ForkExec(l.program, []string{l.program, launcher.Command}, &syscall.ProcAttr{
		Dir: "/", Env: l.stage.Env, Files: fds, Sys: attr,
	})
	if err != nil {
		return nil, err
	}

	c := &child{pid: pid}
	if pidfd >= 0 && unix.SetNonblock(pidfd, true) == nil {
		c.pidfd = os.NewFile(uintptr(pidfd), "pidfd")
	}

	return c, nil
}

// reap waits for the child's end, so that it does not stay a zombie while this process lives. It waits on a
// pollable descriptor: blocking waits would cost a thread for each sandbox.
func (c *child) reap() {
	if c.pidfd != nil {
		defer c.pidfd.Close()

		if raw, err := c.pidfd.SyscallConn(); err == nil {
			_ = raw.Read(func(uintptr) bool { return c.hasEnded() })
		}
	}

	_, _ = unix.Wait4(c.pid, nil, 0, nil)
}

// hasEnded reports whether the child has ended, without reaping it.
func (c *child) hasEnded() bool {
	var info unix.Siginfo

	err := unix.Waitid(unix.P_PID, c.pid, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)

	return err != nil || info.Signo != 0
}
