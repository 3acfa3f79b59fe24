// Package child starts programs that end with the test binary, also when its time limit kills it. It is a
// fixture: only tests import it.
package child

import (
	"os/exec"
	"runtime"
	"syscall"
)

// Start starts a command that gets the signal when this process dies. The channel closes when the command
// has ended; the caller ends it.
//
// The kernel sends the signal at the end of the thread that started the command. Go ends a thread when a
// goroutine returns that is locked to it, so the command has a thread to itself until it ends.
func Start(cmd *exec.Cmd, atDeath syscall.Signal) (ended <-chan struct{}, err error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}

	cmd.SysProcAttr.Pdeathsig = atDeath
	done := make(chan struct{})
	started := make(chan error)

	go func() {
		defer close(done)

		runtime.LockOSThread()

		err := cmd.Start()
		started <- err

		if err == nil {
			_ = cmd.Wait()
		}
	}()

	return done, <-started
}
