package child_test

import (
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/testkit/child"
)

// The end of one program, and of the thread that started it, leaves the others alone.
func TestEndsAlone(t *testing.T) {
	const programs = 32

	ended := make([]<-chan struct{}, programs)
	commands := make([]*exec.Cmd, programs)

	for i := range programs {
		commands[i] = exec.Command("sleep", "600")

		var err error

		ended[i], err = child.Start(commands[i], syscall.SIGKILL)
		require.NoError(t, err)
	}

	for i := range programs {
		require.NoError(t, commands[i].Process.Kill(), "program %d was running", i)
		<-ended[i]
	}
}

func TestProgramIsMissing(t *testing.T) {
	ended, err := child.Start(exec.Command("/nowhere/program"), syscall.SIGKILL)
	require.ErrorContains(t, err, "no such file")
	<-ended
}
