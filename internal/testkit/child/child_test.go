package child_test

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/testkit/child"
)

// No end of another program, and of no thread of this process, ends a program.
func TestLivesOn(t *testing.T) {
	const programs = 8

	ended := make([]<-chan struct{}, programs)
	commands := make([]*exec.Cmd, programs)

	for i := range programs {
		commands[i] = exec.Command("sleep", "600")

		var err error

		ended[i], err = child.Start(commands[i], syscall.SIGKILL)
		require.NoError(t, err)
	}

	endThreads()

	for i := range programs {
		select {
		case <-ended[i]:
			require.Fail(t, "a program ended", "%d", i)
		default:
		}

		require.NoError(t, commands[i].Process.Kill())
		<-ended[i]
	}
}

// endThreads ends all threads that are free: a goroutine that returns ends the thread that it is locked to.
func endThreads() {
	var locked, all sync.WaitGroup

	const threads = 64

	locked.Add(threads)

	for range threads {
		all.Go(func() {
			runtime.LockOSThread()
			locked.Done()
			locked.Wait()
		})
	}

	all.Wait()
}

func TestProgramIsMissing(t *testing.T) {
	ended, err := child.Start(exec.Command("/nowhere/program"), syscall.SIGKILL)
	require.ErrorContains(t, err, "no such file")
	<-ended
}
