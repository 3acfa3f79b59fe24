package process_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/sandboxd/process"
	"github.com/rolloutd/rolloutd/internal/sandboxd/runas"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// A kill stops processes until a listing shows no new ones, and only then kills them. A process that still
// runs could start others.
func TestKillStopsFirst(t *testing.T) {
	t.Parallel()
	first, second := sleeper(t), sleeper(t)
	looks := 0

	require.NoError(t, process.RepeatKill(func() []int {
		switch looks++; looks {
		case 1:
			return []int{first.Process.Pid}
		case 2: // the process had started another one before it stopped
			require.Equal(t, "T", stateOf(t, first))
			return []int{first.Process.Pid, second.Process.Pid}
		case 3:
			require.Equal(t, "TT", stateOf(t, first)+stateOf(t, second), "the first waits for the second")
			return []int{first.Process.Pid, second.Process.Pid}
		default:
			return nil
		}
	}))

	for _, cmd := range []*exec.Cmd{first, second} {
		// returns the signal as an error
		_ = cmd.Wait()
		status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
		require.Equal(t, syscall.SIGKILL, status.Signal())
	}
}

// Endless new processes do not delay a kill, even if each listing takes long.
func TestKillDoesNotStopForever(t *testing.T) {
	t.Parallel()
	// no pid is that high
	const unused = 2_000_000_000

	old := sleeper(t)
	looks := 0

	require.NoError(t, process.RepeatKill(func() []int {
		looks++

		time.Sleep(process.KillTime / 50)

		if killed := looks > 1 && stateOf(t, old) == "Z"; killed {
			return nil
		}

		return []int{old.Process.Pid, unused + looks}
	}))
	require.Error(t, old.Wait())
}

func sleeper(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sleep", "infinity")
	require.NoError(t, cmd.Start())

	return cmd
}

// stateOf returns the state of a process that was sent a signal to stop or to die: T or Z.
func stateOf(t *testing.T, cmd *exec.Cmd) (state string) {
	t.Helper()
	require.Eventually(t, func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid))
		require.NoError(t, err)

		state = string(stat[bytes.LastIndexByte(stat, ')')+2])

		return state == "T" || state == "Z"
	}, 5*time.Minute, time.Millisecond)

	return state
}

// A process that is killed before its program runs counts as not started: the kernel does this when it has
// no memory for it.
func TestDeathBeforeExec(t *testing.T) {
	t.Parallel()
	// ends without a report
	table := process.New(process.Options{Program: "/bin/true", Logger: slog.New(slog.DiscardHandler)})
	_, err := table.Start("one", wire.Process{Argv: []string{"true"}, Dir: "/"})
	require.Equal(t, fault.OutOfMemory, fault.KindOf(err), "%v", err)
}

// No verifier starts without its programs: a start after one that could not make them fails too, or makes them. Without
// them what the verifier starts of the work would run as the verifier. There is no folder for them here.
func TestVerifierNeedsItsPrograms(t *testing.T) {
	t.Parallel()
	require.NoDirExists(t, filepath.Dir(runas.Shims))

	table := process.New(process.Options{Program: "/no/such/program", Logger: slog.New(slog.DiscardHandler)})
	for range 2 {
		_, err := table.Start("one", wire.Process{
			Argv: []string{"true"}, Env: map[string]string{"PATH": "/bin"}, Dispatch: true,
		})
		require.ErrorContains(t, err, "make the verifier's programs")
	}
}

// Names and their output are kept until they are deleted, so their number is bounded.
func TestNamesAreBounded(t *testing.T) {
	t.Parallel()

	table := process.New(process.Options{Program: "/no/such/program", Logger: slog.New(slog.DiscardHandler)})
	table.Fill(process.MaxProcesses)

	next := wire.Process{Argv: []string{"true"}}
	_, err := table.Start("next", next)
	require.Equal(t, fault.Exhausted, fault.KindOf(err), "%v", err)
	_, err = table.Start("p0", next)
	require.NoError(t, err, "it is there already")
	table.Delete("p0")
	_, err = table.Start("next", next)
	require.Error(t, err, "there is no such program")
	require.NotEqual(t, fault.Exhausted, fault.KindOf(err))
}

// The server checks the user of each connection again, whatever the permissions of the socket's folder allow.
func TestRunAsAgentChecksItsCaller(t *testing.T) {
	t.Parallel()
	require.NotEqual(t, wire.VerifierID, os.Getuid())
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	require.NoError(t, err)

	table := process.New(process.Options{
		SeparateUsers: true,
		Program:       "/no/such/program",
		Logger:        slog.New(slog.DiscardHandler),
	})
	ctx, cancel := context.WithCancel(t.Context())

	over := make(chan error, 1)
	go func() { over <- table.ServeRunAsOn(ctx, l) }()

	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
	require.NoError(t, err)
	// the server may already have closed the connection, here and below
	_, _, _ = conn.WriteMsgUnix([]byte{0}, syscall.UnixRights(0, 1, 2), nil)
	_ = json.NewEncoder(conn).Encode(runas.Request{Argv: []string{"true"}, Dir: "/"})

	var reply runas.Reply
	require.NoError(t, json.NewDecoder(conn).Decode(&reply))
	require.Contains(t, reply.Error, "may not start programs")

	require.NoError(t, conn.Close())
	cancel()
	require.NoError(t, l.Close())
	require.Error(t, <-over)
}

// The memory of a process that stays stopped is swapped out by a write to its cgroup's reclaim file.
func TestStoppedProcessIsSwappedOut(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "memory.reclaim")
	reclaim, err := os.Create(path)
	require.NoError(t, err)

	defer reclaim.Close()

	cmd := sleeper(t)
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()

	end := process.Pause(cmd.Process.Pid, reclaim)
	defer end()

	require.Equal(t, "T", stateOf(t, cmd))
	require.Eventually(t, func() bool {
		written, err := os.ReadFile(path)
		return err == nil && len(written) > 0
	}, 5*time.Minute, time.Millisecond)
}
