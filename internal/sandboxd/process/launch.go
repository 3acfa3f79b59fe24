package process

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/sandboxd/prestart"
)

// launchTime bounds the start of a process: a hostile process of the same user can stop it before its exec.
const launchTime = 10 * time.Second

// launcher starts processes through package prestart.
type launcher struct {
	// the sandboxd binary
	program string

	// files by which every process enters its cgroups
	cgroups []*os.File

	// folder into which a process is forked instead; nil: none
	cgroup *os.File
	reaper *reaper
}

// launch starts the program in a session of its own with the given streams, and returns when it runs.
//
// A cgroup at its limit of processes refuses forks into it and new threads of the child. It accepts a
// process that enters by the file with all the threads that it needs. So what sandboxd starts always runs.
func (l *launcher) launch(c prestart.Config, stdio [3]uintptr) (pid int, exited <-chan unix.WaitStatus, err error) {
	c.NoClone3 = l.cgroup != nil
	if l.cgroup != nil && hasRoom(l.cgroup) {
		pid, exited, err = l.start(c, stdio, &syscall.SysProcAttr{
			Setsid:      true,
			UseCgroupFD: true,
			CgroupFD:    int(l.cgroup.Fd()),
		})
		if !errors.Is(err, unix.EAGAIN) {
			return pid, exited, err
		}
	}

	c.Cgroups = len(l.cgroups)

	return l.start(c, stdio, &syscall.SysProcAttr{Setsid: true})
}

func (l *launcher) start(
	c prestart.Config,
	stdio [3]uintptr,
	attr *syscall.SysProcAttr,
) (pid int, exited <-chan unix.WaitStatus, err error) {
	data, err := json.Marshal(c)
	if err != nil {
		return 0, nil, err
	}

	config, err := input(data)
	if err != nil {
		return 0, nil, err
	}
	defer config.Close()

	status, childStatus, err := os.Pipe()
	if err != nil {
		return 0, nil, err
	}
	defer status.Close()

	files := append(stdio[:], config.Fd(), childStatus.Fd())
	for _, f := range l.cgroups[:c.Cgroups] {
		files = append(files, f.Fd())
	}

	pid, exited, err = l.reaper.start(func() (int, error) {
		return syscall.ForkExec(l.program, []string{l.program, prestart.Command}, &syscall.ProcAttr{
			Dir: "/", Env: childEnv(), Files: files, Sys: attr,
		})
	})
	_ = childStatus.Close()

	if err != nil {
		return 0, nil, err
	}

	if err := launched(status); err != nil {
		if fault.Is(err, fault.Timeout) {
			_ = unix.Kill(pid, unix.SIGKILL)
		}

		return 0, nil, err
	}

	return pid, exited, nil
}

// childEnv keeps the runtime of the child small, since it lives for a millisecond. The program gets an
// environment of its own.
func childEnv() []string { return []string{"GOMAXPROCS=1", "GOGC=off"} }

// launched returns nil when exec has closed the status pipe. The death of the process also closes it, but
// without Ready.
func launched(status *os.File) error {
	_ = status.SetReadDeadline(time.Now().Add(launchTime))

	data, err := io.ReadAll(io.LimitReader(status, 64<<10))
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fault.New(fault.Timeout, "the process did not start within %s", launchTime)
	case err != nil:
		return err
	case len(data) == 0:
		return fault.New(fault.OutOfMemory,
			"the process ended before its program ran, for instance for lack of memory or processes")
	}

	data = bytes.TrimPrefix(data, []byte(prestart.Ready))
	if len(data) == 0 {
		return nil
	}

	var f prestart.Failure
	if err := json.Unmarshal(data, &f); err != nil {
		return fault.Wrap(fault.Internal, err, "status of a starting process")
	}

	return f.Err()
}
