package sandboxd

import (
	"os"
	"os/signal"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/sandboxd/prestart"
)

// Guard protects this process from the agent's processes, which may have the same user. It is called once, first.
//
//   - Not dumpable: nothing inside can trace it or read its memory, environment and descriptors.
//   - Descriptors close on exec: a child never inherits the control socket.
//   - Signals from inside are ignored. The kernel drops SIGKILL and SIGSTOP to pid 1, but Go would end or stop on some
//     others, and has no handler for two.
//   - Orphans are reparented to it even if it is not pid 1.
//   - Threads are started in advance: at the process limit the runtime could not start one, and would abort.
func Guard() error {
	if err := closeOnExec(); err != nil {
		return err
	}

	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return err
	}

	ignoreSignals()

	if err := prestart.IgnoreUnhandled(); err != nil {
		return err
	}

	unix.Umask(0o022)
	prestart.WarmThreads(12)

	return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
}

func closeOnExec() error {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}

	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}

	return nil
}

// ignoreSignals sends the signals that end or stop a Go program to a channel that is never read; Go ignores all others.
// Children would inherit an ignored disposition. Each signal costs two thread switches, about 20 µs.
func ignoreSignals() {
	signal.Notify(
		make(chan os.Signal, 1),
		unix.SIGHUP,
		unix.SIGINT,
		unix.SIGTERM,
		unix.SIGPIPE,
		unix.SIGQUIT,
		unix.SIGILL,
		unix.SIGTRAP,
		unix.SIGABRT,
		unix.SIGSTKFLT,
		unix.SIGSYS,
		unix.SIGBUS,
		unix.SIGFPE,
		unix.SIGSEGV,
		unix.SIGTSTP,
		unix.SIGTTIN,
		unix.SIGTTOU,
	)
}
