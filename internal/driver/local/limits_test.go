package local_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/driver/cgroup"
	"github.com/rolloutd/rolloutd/internal/driver/local"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/sandbox/sandboxtest"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// memoryBomb runs a process that takes more memory than the sandbox has.
func memoryBomb(p *sandboxtest.Place) sandboxtest.Ran {
	return p.Bash("echo $$ > /tmp/pid; x=x; while :; do x=$x$x; done")
}

// The kernel kills the process that takes too much memory. The sandbox keeps running and reports the kill,
// and other sandboxes are not affected.
func TestMemoryBomb(t *testing.T) {
	t.Parallel()
	needRoot(t)
	p, neighbour := place(t, driver.Spec{MemoryMiB: 64}), place(t, driver.Spec{})
	neighbour.StartBash("work", "sleep infinity")
	require.Equal(t, "SIGKILL", memoryBomb(p).Signal)
	require.Equal(t, "ok\n", p.Bash("echo ok").Stdout)
	u, err := p.Backend.Inspect(t.Context(), p.ID())
	require.NoError(t, err)
	require.Positive(t, u.OOMKills)
	require.False(t, u.Killed)
	require.False(t, u.ByHost)
	require.InDelta(t, 64<<20, u.PeakMemoryBytes, 8<<20)
	require.Positive(t, u.CPU)

	u, err = neighbour.Backend.Inspect(t.Context(), neighbour.ID())
	require.NoError(t, err)
	require.Zero(t, u.OOMKills)
	st, err := neighbour.Status(t.Context(), "work")
	require.NoError(t, err)
	require.True(t, st.Running)
}

// Files in memory count as memory. If they exceed the limit, the kernel kills the writer, not sandboxd.
func TestMemoryByFiles(t *testing.T) {
	t.Parallel()
	needRoot(t)
	p := place(t, driver.Spec{MemoryMiB: 64, HomeMiB: 512, TmpMiB: 512})
	require.NotZero(t, p.Bash("head -c 400M /dev/zero > /home/user/big").ExitCode)
	require.NoError(t, p.Remove(t.Context(), "/home/user/big"))
	require.Equal(t, "ok\n", p.Bash("echo ok").Stdout)
	u, err := p.Backend.Inspect(t.Context(), p.ID())
	require.NoError(t, err)
	require.Positive(t, u.OOMKills)
}

// If files take all memory and no process is left to kill, the kernel kills sandboxd. The counters of the
// dead sandbox show it.
func TestMemoryByFilesOfSandboxd(t *testing.T) {
	t.Parallel()
	needRoot(t)
	p := place(t, driver.Spec{MemoryMiB: 64, HomeMiB: 1024})

	var err error
	for n := 0; n < 10 && !fault.Is(err, fault.SandboxLost); n++ {
		// while the kernel ends sandboxd, it still takes connections: such a call is Unavailable, and its repetition is not
		err = p.WriteFile(
			t.Context(),
			fmt.Sprintf("/home/user/%d", n),
			bytes.NewReader(bytes.Repeat([]byte("x"), 60<<20)),
			0o600,
		)
	}

	require.Equal(t, fault.SandboxLost, fault.KindOf(err), "%v", err)
	u, err := p.Backend.Inspect(t.Context(), p.ID())
	require.NoError(t, err)
	require.Positive(t, u.OOMKills)
	require.True(t, u.Killed)
}

// Every writable place is bounded, including /dev.
func TestDisksAreBounded(t *testing.T) {
	t.Parallel()
	p := place(t, driver.Spec{HomeMiB: 8, TmpMiB: 8, MemoryMiB: 256})
	fill := `for m in $(awk '$6 ~ /(^|,)rw(,|$)/ && $5 !~ "^/proc|^/dev/(null|zero|full|random|urandom|tty|pts)" {print $5}' /proc/self/mountinfo); do
		head -c 64M /dev/zero > $m/fill 2>/dev/null && echo "$m holds 64M"; s=$(stat -c %s $m/fill); rm $m/fill; echo $m $((s/1048576)); done`
	info, err := p.Info(t.Context())
	require.NoError(t, err)

	agent := "/dev/shm 2\n/home/user 8\n/run 8\n/tmp 8\n/verifier 8\n"
	if info.SeparateUsers {
		agent = "/dev/shm 2\n/home/user 8\n/run 8\n/tmp 8\n/verifier 0\n"

		require.Equal(
			t,
			"/dev/shm 2\n/home/user 8\n/run 8\n/tmp 8\n/verifier 8\n",
			sorted(p.User(wire.VerifierUser).Bash(fill).Stdout),
		)
	}

	require.Equal(t, agent, sorted(p.Bash(fill).Stdout))
}

func sorted(lines string) string {
	return strings.Join(slices.Sorted(strings.Lines(lines)), "")
}

// The kernel refuses a process beyond the limit.
func TestProcessLimit(t *testing.T) {
	t.Parallel()
	needRoot(t)
	dir := t.TempDir()
	p := sandboxtest.New(t, open(t, local.Options{Dir: dir}), driver.Spec{PIDs: 60})
	p.StartBash("many", "while :; do sleep infinity & done")
	p.Eventually(func() bool { return len(membersOf(t, dir)) > 40 }, "the limit is near")
	require.LessOrEqual(t, len(membersOf(t, dir)), 60+2, "bwrap and sandboxd are outside of the limit")

	ran := p.Bash("echo runs")
	require.Equal(t, "runs\n", ran.Stdout, "what sandboxd starts is not refused: %+v", ran)
	require.NoError(t, p.KillAll(t.Context()))
}

// The kernel has about 3,000 pseudo-terminals for all sandboxes, so each sandbox gets only a few.
func TestTerminalsAreBounded(t *testing.T) {
	t.Parallel()
	needRoot(t)
	ran := place(t, driver.Spec{}).Bash(`exec python3 -c '
import os
for n in range(100):
    try: os.openpty()
    except OSError: break
print(n)'`)
	require.Equal(t, "64\n", ran.Stdout, ran.Stderr)
}

// Unread data in the connections of a sandbox stays within its memory.
func TestMemoryBySockets(t *testing.T) {
	t.Parallel()
	needRoot(t)
	ran := place(t, driver.Spec{MemoryMiB: 160}).Bash(`exec python3 -c '
import socket
server = socket.create_server(("127.0.0.1", 0))
held, sent, piece = [], 0, bytes(1 << 16)
while sent < 160 << 20 and len(held) < 200:
    client = socket.create_connection(server.getsockname())
    held.append((client, server.accept()[0]))
    for end in held[-1]:
        end.setblocking(False)
        try:
            while True: sent += end.send(piece)
        except OSError: pass
print("unbounded" if sent >= 160 << 20 else "")'`)
	// where socket buffers count as memory, the kernel may kill the process
	require.NotContains(t, ran.Stdout, "unbounded")
}

// Two busy loops on a fifth of a core use only that share.
func TestCPUQuota(t *testing.T) {
	t.Parallel()
	needRoot(t)
	p := place(t, driver.Spec{CPU: 0.2})
	p.StartBash("busy", "while :; do :; done & while :; do :; done")

	usage := func() time.Duration {
		u, err := p.Backend.Inspect(t.Context(), p.ID())
		require.NoError(t, err)

		return u.CPU
	}
	began, before := time.Now(), usage()

	p.Eventually(func() bool { return usage()-before > 200*time.Millisecond }, "some work is done")

	share := float64(usage()-before) / float64(time.Since(began))
	// far below the two cores that the loops could use, and below one
	require.Less(t, share, 0.5)
}

// Every thread of a started process is in the cgroups with the sandbox's limits. The threads of sandboxd are not.
func TestCgroupsOfProcesses(t *testing.T) {
	t.Parallel()
	needRoot(t)
	dir := t.TempDir()
	p := sandboxtest.New(t, open(t, local.Options{Dir: dir}), driver.Spec{})
	p.StartBash("job", "exec sleep infinity")
	p.Eventually(func() bool { return len(childCgroups(t, dir, "sleep")) > 0 }, "the program runs")
	require.Equal(t, []string{"work"}, childCgroups(t, dir, "sleep"))
	require.Equal(t, []string{"sandboxd"}, childCgroups(t, dir, "sandboxd"))
}

// childCgroups returns the child cgroups of the sandbox's cgroups that the threads of a program are in,
// over all controllers.
func childCgroups(t *testing.T, dir, program string) []string {
	t.Helper()

	part := regexp.MustCompile(`(?m):[a-z,]+:/rolloutd/\S+/(\w+)$`)
	if cgroup.New("/sys/fs/cgroup").Version == 2 {
		part = regexp.MustCompile(`(?m)::/rolloutd/\S+/(\w+)$`)
	}

	var parts []string

	for _, pid := range membersOf(t, dir) {
		if name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); strings.TrimSpace(string(name)) != program {
			continue
		}

		for _, file := range glob(t, fmt.Sprintf("/proc/%d/task/*/cgroup", pid)) {
			data, err := os.ReadFile(file)
			require.NoError(t, err)

			for _, found := range part.FindAllStringSubmatch(string(data), -1) {
				parts = append(parts, found[1])
			}
		}
	}

	slices.Sort(parts)

	return slices.Compact(parts)
}

// A full disk of the host is a lack of room, which another host may have, and no failure of a sandbox.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	needRoot(t)

	dir := t.TempDir()
	require.NoError(t, unix.Mount("test", dir, "tmpfs", 0, "size=1m"))
	t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, unix.MNT_DETACH)) })

	d := open(t, local.Options{Dir: dir})
	require.NoError(t, d.Probe(t.Context()))

	filler := filepath.Join(dir, "filler")
	require.ErrorIs(t, os.WriteFile(filler, make([]byte, 2<<20), 0o600), unix.ENOSPC)

	err := d.Create(t.Context(), "a", tiny())
	require.Equal(t, fault.Exhausted, fault.KindOf(err), "%v", err)

	require.NoError(t, os.Remove(filler))
	require.NoError(t, d.Create(t.Context(), "a", tiny()))
	require.NoError(t, d.Destroy(cleanupContext(t), "a"))
}
