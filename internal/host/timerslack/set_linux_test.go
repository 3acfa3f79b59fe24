package timerslack_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/host/timerslack"
)

// Every thread has the slack, including threads that begin later, and so has a child process. The test runs
// in its own process, because the slack of a thread cannot be restored.
func TestSet(t *testing.T) {
	t.Parallel()

	const child = "TIMERSLACK_TEST_CHILD"
	if os.Getenv(child) == "" {
		self, err := os.Executable()
		require.NoError(t, err)
		cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestSet$")

		cmd.Env = append(os.Environ(), child+"=1")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)

		return
	}

	err := timerslack.Set(200 * time.Microsecond)
	if errors.Is(err, os.ErrPermission) {
		t.Skip("a program with C needs CAP_SYS_NICE")
	}

	require.NoError(t, err)
	// each waits in the kernel, so each has a thread
	var threads sync.WaitGroup

	outs := make([]string, 8)
	for i := range outs {
		threads.Go(func() {
			out, err := exec.CommandContext(t.Context(), "cat", "/proc/self/timerslack_ns").Output()
			if err == nil {
				outs[i] = strings.TrimSpace(string(out))
			}
		})
	}

	threads.Wait()

	for _, out := range outs {
		require.Equal(t, "200000", out)
	}

	tasks, err := os.ReadDir("/proc/self/task")
	require.NoError(t, err)
	require.Greater(t, len(tasks), 2)

	for _, task := range tasks {
		slack, err := os.ReadFile(filepath.Join("/proc", task.Name(), "timerslack_ns"))
		// the thread has ended
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue
		}

		if errors.Is(err, os.ErrPermission) {
			t.Skip("threads of others cannot be read")
		}

		require.NoError(t, err)
		require.Equal(t, "200000", strings.TrimSpace(string(slack)), "thread %s", task.Name())
	}
}
