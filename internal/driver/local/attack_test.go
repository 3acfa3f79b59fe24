package local_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/driver/local"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/sandbox"
	"github.com/rolloutd/rolloutd/internal/sandbox/sandboxtest"
	"github.com/rolloutd/rolloutd/internal/sandboxd/modelchannel"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// The agent's processes cannot take memory, descriptors or processor time from sandboxd.
func TestLimitsOfSandboxd(t *testing.T) {
	t.Parallel()
	p := place(t, driver.Spec{})
	ran := p.Bash(`for l in as data nofile nproc stack memlock; do prlimit --pid 1 --$l=1:1 && echo set $l; done
		renice -n 19 -p 1; taskset -p 1 1; chrt --idle -p 0 1; true`)
	require.NotContains(t, ran.Stdout, "set ")
	require.Equal(t, "ok\n", p.Bash("echo ok").Stdout)
	require.NoError(t, p.WriteFile(t.Context(), "/tmp/big", io.LimitReader(zeros{}, 8<<20), 0o600))
}

// zeros is an endless reader.
type zeros struct{}

// Read implements io.Reader.
func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// flood posts 64 bodies of 60 MiB to the model channel, which has no gateway, and keeps the connections open.
const flood = `
import socket, threading, time
def post():
    s = socket.create_connection(("127.0.0.1", 7000))
    s.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (60 << 20))
    piece = bytes(1 << 20)
    try:
        for _ in range(60): s.sendall(piece)
    except OSError: pass
    time.sleep(3600)
for _ in range(64): threading.Thread(target=post).start()
idle = [socket.create_connection(("127.0.0.1", 7000)) for _ in range(150)]
print("up", flush=True)`

// Request bodies without a gateway fill the memory of neither the sandbox nor sandboxd. The channel works
// again after their processes are killed.
func TestFloodOfTheModelChannel(t *testing.T) {
	t.Parallel()
	needRoot(t)
	p, neighbour := place(t, driver.Spec{MemoryMiB: 512}), place(t, driver.Spec{})
	serveInside(t, p, "flood", "python3", "-c", flood)

	for range 20 {
		require.Equal(t, "ok\n", p.Bash("echo ok").Stdout)
		require.Equal(t, "ok\n", neighbour.Bash("echo ok").Stdout)
	}

	require.NoError(t, p.KillAll(t.Context()))
	u, err := p.Backend.Inspect(t.Context(), p.ID())
	require.NoError(t, err)
	require.Zero(t, u.OOMKills)

	calls := make(chan string, 256)

	go func() {
		_ = p.Backend.ServeModel(t.Context(), p.ID(), http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			if len(body) < 100 {
				calls <- string(body)
			}
		}), nil)
	}()

	p.StartBash(
		"call",
		`exec 3<>/dev/tcp/127.0.0.1/7000; printf 'POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello' >&3; cat <&3`,
	)
	require.Equal(t, "hello", <-calls)
}

// Connections to the model channel beyond the limit wait in the kernel and cost sandboxd nothing.
func TestConnectionsToTheModelChannel(t *testing.T) {
	t.Parallel()
	needRoot(t)
	dir := t.TempDir()
	p := sandboxtest.New(t, open(t, local.Options{Dir: dir}), driver.Spec{})
	serveInside(t, p, "connections", "python3", "-c", `
import socket, time
held = [socket.create_connection(("127.0.0.1", 7000)) for _ in range(350)]
print("up", flush=True)
time.sleep(3600)`)

	sockets := func() int {
		n := 0

		for _, pid := range membersOf(t, dir) {
			if name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); string(name) == "sandboxd\n" {
				n += len(glob(t, fmt.Sprintf("/proc/%d/fd/*", pid)))
			}
		}

		return n
	}

	p.Eventually(func() bool { return sockets() >= modelchannel.MaxConnections }, "connections are accepted")
	require.Equal(t, "ok\n", p.Bash("echo ok").Stdout)
	require.Less(t, sockets(), modelchannel.MaxConnections+50)
}

// A kill ends a fork bomb in a sandbox with little CPU within its time limit, by name and with all other processes.
func TestForkBombEnds(t *testing.T) {
	t.Parallel()
	needRoot(t)
	dir := t.TempDir()

	p := sandboxtest.New(t, open(t, local.Options{Dir: dir}), driver.Spec{PIDs: 512, CPU: 0.2})
	for _, name := range []string{"first", "second"} {
		p.StartBash(name, `trap '' TERM; bomb() { (trap '' TERM; bomb | bomb) & bomb; }; bomb 2>/dev/null`)
		p.Eventually(func() bool { return len(membersOf(t, dir)) > 400 }, "the bomb has gone off")

		if name == "first" {
			require.NoError(t, p.Kill(t.Context(), name))
		}

		require.NoError(t, p.KillAll(t.Context()))
		require.Equal(t, "ok\n", p.Bash("echo ok").Stdout)
	}
}

// A sandboxd that no longer answers is ended from outside, whatever the request, and nothing of it is left.
func TestSilentSandbox(t *testing.T) {
	t.Parallel()
	needRoot(t)

	for name, ask := range map[string]func(context.Context, *sandbox.Sandbox) error{
		"kill all": func(ctx context.Context, s *sandbox.Sandbox) error { return s.KillAll(ctx) },
		"wait": func(ctx context.Context, s *sandbox.Sandbox) error {
			_, err := s.Wait(ctx, "job", time.Second)
			return err
		},
		"read": func(ctx context.Context, s *sandbox.Sandbox) error {
			_, err := s.ReadFile(ctx, "/tmp/x", 1)
			return err
		},
		"write": func(ctx context.Context, s *sandbox.Sandbox) error {
			return s.WriteFile(ctx, "/tmp/x", io.LimitReader(zeros{}, 64<<20), 0o600)
		},
		"start": func(ctx context.Context, s *sandbox.Sandbox) error {
			_, err := s.Start(ctx, "next", wire.Process{Argv: []string{"true"}})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, dir := newWithShortTimeouts(t)
			stopAll(t, dir)
			requireLost(t, dir, ask(t.Context(), s))
		})
	}

	t.Run("in the middle of an archive", func(t *testing.T) {
		t.Parallel()
		s, dir := newWithShortTimeouts(t)
		content, err := s.GetTar(t.Context(), "/home/user")
		require.NoError(t, err)
		stopAll(t, dir)

		_, err = io.Copy(io.Discard, content)
		requireLost(t, dir, err)
		require.NoError(t, content.Close())
	})
}

// newWithShortTimeouts creates a sandbox with a large file and a client with short timeouts.
func newWithShortTimeouts(t *testing.T) (s *sandbox.Sandbox, dir string) {
	t.Helper()
	dir = t.TempDir()
	d := open(t, local.Options{Dir: dir})
	p := sandboxtest.New(t, d, driver.Spec{})
	require.NoError(t, p.WriteFile(t.Context(), "/home/user/big", io.LimitReader(zeros{}, 48<<20), 0o600))

	b := sandbox.New(d, sandbox.Options{Silence: 3 * time.Second, Proof: 3 * time.Second})
	s, err := b.Attach(t.Context(), p.ID())
	require.NoError(t, err)

	return s, dir
}

// stopAll stops every process of the sandboxes, including sandboxd.
func stopAll(t *testing.T, dir string) {
	t.Helper()

	for _, pid := range membersOf(t, dir) {
		require.NoError(t, unix.Kill(pid, unix.SIGSTOP))
		require.Eventually(t, func() bool { return stopped(t, pid) }, sandboxtest.Patience, time.Millisecond)
	}
}

// stopped reports whether every thread of the process is stopped.
func stopped(t *testing.T, pid int) bool {
	t.Helper()
	threads := glob(t, fmt.Sprintf("/proc/%d/task/*/status", pid))

	return !slices.ContainsFunc(threads, func(file string) bool {
		status, err := os.ReadFile(file)
		return err != nil || !strings.Contains(string(status), "State:\tT")
	})
}

func requireLost(t *testing.T, dir string, err error) {
	t.Helper()
	require.Equal(t, fault.SandboxLost, fault.KindOf(err), "%v", err)
	requireNothingLeft(t, dir)
	requireFolders(t, dir, 0)
}
