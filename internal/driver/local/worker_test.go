package local_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/driver/local"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// workerEnv makes this test binary a worker in its own process, which can be killed.
const workerEnv = "ROLLOUTD_TEST_WORKER"

// job is the task of the worker: it creates the sandboxes, starts the script in each, reports that, and
// waits to be killed.
type job struct {
	Dir, Sandboxd string
	IDs           []string
	Script        string
	Lease         time.Duration
}

func work(text string) int {
	if err := doJob(context.Background(), text); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}

	fmt.Println("ready")

	select {}
}

func doJob(ctx context.Context, text string) error {
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return err
	}

	d, err := local.New(local.Options{Dir: j.Dir, SandboxdPath: j.Sandboxd})
	if err != nil {
		return err
	}

	b := sandbox.New(d, sandbox.Options{Defaults: driver.Spec{Lease: j.Lease, HomeMiB: 16, TmpMiB: 16, MemoryMiB: 256}})
	for _, id := range j.IDs {
		s, err := b.Create(ctx, id, rollout.Sandbox{}, nil)
		if err != nil {
			return err
		}

		if _, err := s.Start(ctx, "job", wire.Process{Argv: []string{"bash", "-c", j.Script}}); err != nil {
			return err
		}
	}

	return nil
}

// startWorker starts the job and returns when the worker waits.
func startWorker(t *testing.T, j job) *exec.Cmd {
	t.Helper()
	return startWorkerAs(t, j, "/proc/self/exe", nil)
}

func startWorkerAs(t *testing.T, j job, binary string, attr *unix.SysProcAttr) *exec.Cmd {
	t.Helper()

	text, err := json.Marshal(j)
	require.NoError(t, err)

	cmd := exec.Command(binary)

	cmd.Env = append(os.Environ(), workerEnv+"="+string(text), "ROLLOUTD_CANARY=canary-in-the-worker")
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = attr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })

	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "ready\n", line)

	return cmd
}

func kill9(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	require.NoError(t, cmd.Process.Kill())
	// returns the signal as an error
	_ = cmd.Wait()
}
