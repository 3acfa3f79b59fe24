package sandboxtest

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

func execTests() map[string]func(*testing.T, Harness) {
	return map[string]func(*testing.T, Harness){
		"Once":           execOnce,
		"Attach":         execAttach,
		"Timeout":        execTimeout,
		"OutputBounded":  execOutputBounded,
		"AnyBytes":       execAnyBytes,
		"NotSerialised":  execNotSerialised,
		"Delete":         execDelete,
		"Refused":        execRefused,
		"BackgroundLeft": execBackgroundLeft,
		"NoneAfterEnd":   execNoneAfterEnd,
		"DeletePTY":      ptyDelete,
	}
}

func bash(script string) wire.Exec {
	return wire.Exec{Process: wire.Process{
		Argv:          []string{"bash", "-c", script},
		TimeoutMillis: Patience.Milliseconds(),
	}}
}

// A call made again returns the first result, and its command runs once, however many ask at the same time.
func execOnce(t *testing.T, h Harness) {
	p := h.place(t)
	results := make([]wire.ExecResult, 8)

	var calls sync.WaitGroup
	for i := range results {
		calls.Go(func() {
			var err error

			results[i], err = p.Exec(
				t.Context(),
				"call.1",
				bash("echo x >> /tmp/runs; cat /tmp/runs; echo e >&2; exit 3"),
			)
			if err != nil {
				t.Error(err)
			}
		})
	}

	calls.Wait()

	for _, r := range results {
		require.Equal(t, "x\n", string(r.Stdout.Head))
		require.Equal(t, "e\n", string(r.Stderr.Head))
		require.Equal(t, 3, r.ExitCode)
		require.Equal(t, results[0].PID, r.PID)
	}

	_, err := p.Exec(t.Context(), "call.1", bash("echo other"))
	require.True(t, fault.Is(err, fault.Conflict), "%v", err)
}

// A client that goes away in the middle of a call loses nothing.
func execAttach(t *testing.T, h Harness) {
	p := h.place(t)
	cmd := bash("echo run >> /tmp/runs; until [ -e /tmp/go ]; do read -t 0.01 <> <(:) || :; done; cat /tmp/runs")
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan error, 1)

	go func() {
		_, err := p.Exec(ctx, "c", cmd)
		gone <- err
	}()

	p.Eventually(func() bool {
		_, err := p.ReadFile(t.Context(), "/tmp/runs", 100)
		return err == nil
	}, "the command runs")
	cancel()
	require.Error(t, <-gone)
	require.NoError(t, p.WriteFile(t.Context(), "/tmp/go", newText(""), 0o644))
	again, err := Attach(t, p.Backend, p.ID()).Exec(t.Context(), "c", cmd)
	require.NoError(t, err)
	require.Equal(t, "run\n", string(again.Stdout.Head))
}

// What a command wrote before its time was up is kept.
func execTimeout(t *testing.T, h Harness) {
	p := h.place(t)
	cmd := bash("echo before; sleep 1000 & sleep 1000")

	var r wire.ExecResult
	// bash has begun by then
	for cmd.TimeoutMillis = 300; len(r.Stdout.Head) == 0 && cmd.TimeoutMillis < Patience.Milliseconds(); cmd.TimeoutMillis *= 4 {
		var err error

		r, err = p.Exec(t.Context(), "c"+strconv.FormatInt(cmd.TimeoutMillis, 10), cmd)
		require.NoError(t, err)
		require.True(t, r.TimedOut)
	}

	require.Equal(t, "before\n", string(r.Stdout.Head))
	require.Equal(t, "0\n", p.Bash("pgrep -c sleep || true").Stdout)
}

func execOutputBounded(t *testing.T, h Harness) {
	p := h.place(t)
	cmd := bash("echo first; head -c 100000000 /dev/zero; echo; echo last")
	cmd.KeepBytes = 1000
	r, err := p.Exec(t.Context(), "c", cmd)
	require.NoError(t, err)
	require.Len(t, r.Stdout.Head, 1000)
	require.Len(t, r.Stdout.Tail, 1000)
	require.True(t, strings.HasPrefix(string(r.Stdout.Head), "first\n"))
	require.True(t, strings.HasSuffix(string(r.Stdout.Tail), "\nlast\n"))
	require.EqualValues(t, 100_000_000+12-2000, r.Stdout.Omitted)
	require.Equal(t, int64(100_000_012), r.StdoutSize)
}

func execAnyBytes(t *testing.T, h Harness) {
	p := h.place(t)
	cmd := bash("cat; printf '\\377\\0\\n'")
	cmd.Stdin = []byte{0xfe, 0}
	r, err := p.Exec(t.Context(), "c", cmd)
	require.NoError(t, err)
	require.Equal(t, []byte{0xfe, 0, 0xff, 0, '\n'}, r.Stdout.Head)
	require.Empty(t, r.Stdout.Tail)
	require.Zero(t, r.Stdout.Omitted)
}

// A call ends while another one, and a change of the sandbox, go on.
func execNotSerialised(t *testing.T, h Harness) {
	p := h.place(t)
	slow := make(chan error, 1)

	go func() {
		_, err := p.Exec(t.Context(), "slow", bash("until [ -e /tmp/go ]; do read -t 0.01 <> <(:) || :; done"))
		slow <- err
	}()

	for i := range 4 {
		_, err := p.Exec(t.Context(), "fast-"+strconv.Itoa(i), bash("true"))
		require.NoError(t, err)
	}

	require.NoError(t, p.WriteFile(t.Context(), "/tmp/go", newText(""), 0o644))
	require.NoError(t, <-slow)
}

func execDelete(t *testing.T, h Harness) {
	p := h.place(t)
	ended := make(chan wire.ExecResult, 1)

	go func() {
		r, err := p.Exec(t.Context(), "c", bash("echo > /tmp/began; sleep 1000"))
		if err != nil {
			t.Error(err)
		}

		ended <- r
	}()

	p.Eventually(func() bool {
		_, err := p.ReadFile(t.Context(), "/tmp/began", 100)
		return err == nil
	}, "the command runs")
	require.NoError(t, p.DeleteExec(t.Context(), "c"))
	require.Equal(t, "SIGKILL", (<-ended).Signal)
	r, err := p.Exec(t.Context(), "c", bash("echo other"))
	require.NoError(t, err)
	require.Equal(t, "other\n", string(r.Stdout.Head))
	require.NoError(t, p.DeleteExec(t.Context(), "c"))
	require.NoError(t, p.DeleteExec(t.Context(), "never"))
}

func execRefused(t *testing.T, h Harness) {
	p := h.place(t)
	for _, id := range []string{".", "..", "-a", "a/b", "a b", strings.Repeat("a", 129)} {
		_, err := p.Exec(t.Context(), id, bash("true"))
		require.Error(t, err, id)
	}

	for range 2 {
		_, err := p.Exec(t.Context(), "c", wire.Exec{Process: wire.Process{Argv: []string{"/none"}}})
		require.True(t, fault.Is(err, fault.Invalid), "%v", err)
	}
}

// A background process outlives its call, which does not wait for it.
func execBackgroundLeft(t *testing.T, h Harness) {
	p := h.place(t)
	r, err := p.Exec(t.Context(), "c", bash("sleep 1000 & echo $!"))
	require.NoError(t, err)
	require.Zero(t, r.ExitCode)
	require.Equal(t, "1\n", p.Bash("pgrep -c sleep").Stdout)
}

// After KillAll no call starts a process: what is graded cannot be changed by a call that comes late.
// Processes of our own can start.
func execNoneAfterEnd(t *testing.T, h Harness) {
	p := h.place(t)
	before, err := p.Exec(t.Context(), "before", bash("echo before"))
	require.NoError(t, err)

	shell := wire.Process{Argv: []string{"bash", "-i"}}
	_, err = p.PTY(t.Context(), "main", "shell", wire.PTYCall{Action: wire.PTYStart, Shell: shell})
	require.NoError(t, err)

	late := make(chan error, 8)
	// some come while the processes are ended
	for i := range cap(late) {
		go func() {
			_, err := p.Exec(t.Context(), "late-"+strconv.Itoa(i), bash("sleep 1000"))
			late <- err
		}()
	}

	require.NoError(t, p.KillAll(t.Context()))

	for range cap(late) {
		if err := <-late; err != nil {
			// refused, or killed as it began
			require.Contains(t, []fault.Kind{fault.Aborted, fault.OutOfMemory}, fault.KindOf(err), "%v", err)
		}
	}

	_, err = p.Exec(t.Context(), "after", bash("touch /tmp/after"))
	require.True(t, fault.Is(err, fault.Aborted), "%v", err)
	_, err = p.PTY(t.Context(), "main", "more", wire.PTYCall{
		Action:  wire.PTYRun,
		Shell:   shell,
		Command: "touch /tmp/after",
	})
	require.True(t, fault.Is(err, fault.Aborted), "%v", err)
	again, err := p.Exec(t.Context(), "before", bash("echo before"))
	require.NoError(t, err)
	require.Equal(t, before.PID, again.PID)
	require.Equal(t, "0\n", p.Bash("pgrep -c sleep; test ! -e /tmp/after").Stdout)
}

// A deleted shell is ended with what it started, and makes room for another.
func ptyDelete(t *testing.T, h Harness) {
	p := h.place(t)
	shell := wire.Process{Argv: []string{"bash"}}
	run := func(name, id, command string) wire.PTYAnswer {
		t.Helper()
		a, err := p.PTY(t.Context(), name, id, wire.PTYCall{
			Action:        wire.PTYRun,
			Shell:         shell,
			Command:       command,
			TimeoutMillis: Patience.Milliseconds(),
		})
		require.NoError(t, err)

		return a
	}
	// more than a sandbox has at a time
	for i := range 10 {
		name := "shell" + strconv.Itoa(i)
		require.Zero(t, run(name, name, "sleep infinity & echo $! > /tmp/pid").ExitCode)
		require.NoError(t, p.DeletePTY(t.Context(), name))
		// a killed process takes signals until it is reaped
		require.Equal(t, "gone\n", p.Bash(
			`while kill -0 "$(cat /tmp/pid)" 2> /tmp/why && grep -qv ') Z' "/proc/$(cat /tmp/pid)/stat"; do sleep 0.05; done; echo gone`,
		).Stdout)
	}

	require.NoError(t, p.DeletePTY(t.Context(), "never"))
	require.Zero(t, run("shell0", "again", "true").ExitCode)
	a := run("shell0", "shell0", "sleep infinity & echo $! > /tmp/pid")
	require.Zero(t, a.ExitCode, "the answer to an earlier call is kept")
}
