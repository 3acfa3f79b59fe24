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

// A kill stops all processes before it kills one, until a list shows no new ones: one that runs on could start others meanwhile.
func TestKillStopsFirst(t *testing.T) {
	t.Parallel()
	first, second := sleeper(t), sleeper(t)
	looks := 0
	require.NoError(t, process.RepeatKill(func() []int {
		switch looks++; looks {
		case 1:
			return []int{first.Process.Pid}
		case 2: // it had started another before it stopped
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
		_ = cmd.Wait() // its status is the signal
		status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
		require.Equal(t, syscall.SIGKILL, status.Signal())
	}
}

// New processes without end do not put a kill off, also where each look at the processes takes long.
func TestKillDoesNotStopForever(t *testing.T) {
	t.Parallel()
	const unused = 2_000_000_000 // no pid is that high
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

// stateOf is the state of a process that was sent a signal to stop or to die: T, or Z.
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

// A process that is killed before its program runs was not started, as where the kernel finds no memory for it.
func TestDeathBeforeExec(t *testing.T) {
	t.Parallel()
	table := process.New(process.Options{Program: "/bin/true", Logger: slog.New(slog.DiscardHandler)}) // ends without a word
	_, err := table.Start("one", wire.Process{Argv: []string{"true"}, Dir: "/"})
	require.Equal(t, fault.OutOfMemory, fault.KindOf(err), "%v", err)
}

// Names are kept, with their output, until they are deleted: their number is bounded.
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

// Who connects is checked again, whatever the folder of the socket lets through.
func TestRunAsAgentIsTheVerifiers(t *testing.T) {
	t.Parallel()
	require.NotEqual(t, wire.VerifierID, os.Getuid())
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	require.NoError(t, err)
	table := process.New(process.Options{SeparateUsers: true, Program: "/no/such/program", Logger: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- table.ServeRunAsOn(ctx, l) }()

	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
	require.NoError(t, err)
	_, _, _ = conn.WriteMsgUnix([]byte{0}, syscall.UnixRights(0, 1, 2), nil) // it may have hung up already, here and below
	_ = json.NewEncoder(conn).Encode(runas.Request{Argv: []string{"true"}, Dir: "/"})
	var reply runas.Reply
	require.NoError(t, json.NewDecoder(conn).Decode(&reply))
	require.Contains(t, reply.Error, "may not start programs")

	require.NoError(t, conn.Close())
	cancel()
	require.NoError(t, l.Close())
	require.Error(t, <-over)
}

// What a process that stays stopped has in memory is swapped out, by a write to the file of its cgroup.
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
