package docker_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"
	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/driver/docker"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
	"github.com/rolloutd/rolloutd/internal/sandbox/sandboxtest"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// workerEnv makes the test binary a worker. Its value is socket, folder and sandboxd, separated by blanks.
const workerEnv = "ROLLOUTD_TEST_DOCKER_WORKER"

// work creates the sandbox "kept" with a process, prints "ready", and waits to be killed.
func work(job string) int {
	parts := strings.Fields(job)

	d, err := docker.New(docker.Options{
		Daemon:       docker.Daemon{Host: parts[0]},
		Dir:          parts[1],
		SandboxdPath: parts[2],
		BridgeDir:    parts[1] + "/bridge",
		Image:        testImage,
	})
	if err == nil {
		var s *sandbox.Sandbox

		b := sandbox.New(d, sandbox.Options{Defaults: driver.Spec{HomeMiB: 64, TmpMiB: 16, MemoryMiB: 512}})
		if s, err = b.Create(
			context.Background(),
			"kept",
			rollout.Sandbox{},
			map[string]string{driver.LabelRollout: "r"},
		); err == nil {
			_, err = s.Start(
				context.Background(),
				"job",
				wire.Process{Argv: []string{"bash", "-c", "echo up; sleep infinity"}},
			)
		}
	}

	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}

	fmt.Println("ready")

	select {}
}

// After a worker is killed, the next worker of the same folder has its sandbox. If the host does not
// return, the lease ends the sandbox, and any other host removes the container. The test is not parallel:
// the other host removes every container that looks dead at once, including containers that have not
// started yet.
func TestKilledWorker(t *testing.T) {
	e, dir := engine(t), t.TempDir()
	worker := exec.CommandContext(t.Context(), os.Args[0])

	worker.Env = append(os.Environ(), workerEnv+"="+strings.Join([]string{e.Socket, dir, world.sandboxd}, " "))
	worker.Stderr = os.Stderr
	out, err := worker.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, worker.Start())

	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "ready\n", line)
	require.NoError(t, worker.Process.Kill())
	_ = worker.Wait()

	b := sandbox.New(open(t, docker.Options{Dir: dir}), sandbox.Options{})
	infos, err := b.List(t.Context())
	require.NoError(t, err)
	require.Len(t, infos, 1)
	require.Equal(t, map[string]string{driver.LabelRollout: "r"}, infos[0].Labels)
	p := sandboxtest.Attach(t, b, "kept")
	p.Says("job", "up\n")

	other := sandbox.New(open(t, docker.Options{KeepDead: time.Nanosecond}), sandbox.Options{})
	infos, err = other.List(t.Context())
	require.NoError(t, err)
	require.Empty(t, infos, "another host's")
	p.Says("job", "up\n")
	// as if no worker renewed the lease
	p.EndLease()
	p.Eventually(func() bool {
		_, err := other.List(t.Context())
		require.NoError(t, err)

		return len(containersOf(t, "kept")) == 0
	}, "the container is removed")

	_, err = b.Attach(t.Context(), "kept")
	require.Equal(t, fault.SandboxLost, fault.KindOf(err), "%v", err)
}

func containersOf(t *testing.T, id string) []string {
	t.Helper()
	all, err := engine(t).Client.ContainerList(t.Context(), client.ContainerListOptions{
		All: true, Filters: client.Filters{}.Add("label", "dev.rolloutd.sandbox="+id),
	})
	require.NoError(t, err)

	var ids []string
	for _, c := range all.Items {
		ids = append(ids, c.ID)
	}

	return ids
}
