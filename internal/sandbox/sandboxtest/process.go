package sandboxtest

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/sandbox"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

func processTests() map[string]func(*testing.T, Harness) {
	return map[string]func(*testing.T, Harness){
		"StartOnce":        startOnce,
		"ExitStatus":       exitStatus,
		"ExactEnvironment": exactEnvironment,
		"Stdin":            stdin,
		"Refused":          refused,
		"NeverStarted":     neverStarted,
		"WaitAtMost":       waitAtMost,
		"Timeout":          timeout,
		"OwnSession":       ownSession,
		"NothingInherited": nothingInherited,
		"OrphansReaped":    orphansReaped,
	}
}

// The same name means the same process, however often and with whatever it is asked for: a retried activity must not
// start a second agent.
func startOnce(t *testing.T, h Harness) {
	p := h.place(t)
	first := p.StartBash("once", "echo run >> /tmp/runs; cat /tmp/runs")
	ended := p.End("once")
	again := p.StartBash("once", "echo other")
	require.False(t, again.Running)
	require.Equal(t, first.PID, again.PID)
	require.Equal(t, ended.EndedAt, again.EndedAt)
	require.Equal(t, "run\n", p.output(again, "stdout"))
}

func exitStatus(t *testing.T, h Harness) {
	p := h.place(t)
	for script, want := range map[string]wire.Status{
		"exit 0":                     {},
		"exit 3":                     {ExitCode: 3},
		"kill -TERM $$; sleep 100":   {ExitCode: 143, Signal: "SIGTERM"},
		"kill -KILL $$; sleep 100":   {ExitCode: 137, Signal: "SIGKILL"},
		"echo a; echo bc >&2; false": {ExitCode: 1, StdoutSize: 2, StderrSize: 3},
	} {
		got := p.Bash(script)
		require.Equal(t, want.ExitCode, got.ExitCode, script)
		require.Equal(t, want.Signal, got.Signal, script)
		require.Equal(t, want.StdoutSize, got.StdoutSize, script)
		require.Equal(t, want.StderrSize, got.StderrSize, script)
		require.False(t, got.TimedOut)
		require.False(t, got.EndedAt.Before(got.StartedAt))
		require.Positive(t, got.Ran)
		require.GreaterOrEqual(t, got.Age, got.Ran)
	}
}

func exactEnvironment(t *testing.T, h Harness) {
	p := h.place(t)

	path := sandbox.DefaultPath
	if h.Root {
		path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/rolloutd/bin"
	}

	for name, c := range map[string]struct {
		env  map[string]string
		want []string
	}{
		"defaults": {nil, []string{"HOME=/home/user", "PATH=" + path}},
		"own": {
			map[string]string{"PATH": "/usr/bin", "A": "b c=d"},
			[]string{"A=b c=d", "HOME=/home/user", "PATH=/usr/bin"},
		},
	} {
		_, err := p.Start(t.Context(), name, wire.Process{Argv: []string{"env", "-0"}, Env: c.env, Dir: "/tmp"})
		require.NoError(t, err)
		require.Equal(t, c.want, strings.Split(strings.TrimSuffix(p.End(name).Stdout, "\x00"), "\x00"))
	}
}

func stdin(t *testing.T, h Harness) {
	p := h.place(t)
	// far more than a pipe holds
	input := strings.Repeat("0123456789abcdef", 20_000)
	_, err := p.Start(t.Context(), "sum", wire.Process{
		Argv:  []string{"bash", "-c", "sleep 0.05; wc -c"},
		Stdin: []byte(input),
	})
	require.NoError(t, err)
	require.Equal(t, "320000", strings.TrimSpace(p.End("sum").Stdout))
	require.Zero(t, p.Bash("! read -r line").ExitCode, "no stdin is an empty one")
}

func refused(t *testing.T, h Harness) {
	p := h.place(t)
	require.Zero(
		t,
		p.Bash("printf '#!/no/such/interpreter\\n' > /home/user/script && chmod +x /home/user/script").ExitCode,
	)

	for name, c := range map[string]struct {
		name string
		spec wire.Process
	}{
		"no program":   {"a", wire.Process{}},
		"not in PATH":  {"a", wire.Process{Argv: []string{"no-such-program"}}},
		"no such file": {"a", wire.Process{Argv: []string{"/no/such/program"}}},
		"a directory":  {"a", wire.Process{Argv: []string{"/tmp"}}},
		"no loader":    {"a", wire.Process{Argv: []string{"/home/user/script"}}},
		"not runnable": {"a", wire.Process{Argv: []string{"/etc/passwd"}}},
		"no such dir":  {"a", wire.Process{Argv: []string{"true"}, Dir: "/no/such"}},
		"relative dir": {"a", wire.Process{Argv: []string{"true"}, Dir: "tmp"}},
		"empty name":   {"", wire.Process{Argv: []string{"true"}}},
		"odd name":     {"a/../b", wire.Process{Argv: []string{"true"}}},
	} {
		_, err := p.Start(t.Context(), c.name, c.spec)
		require.Error(t, err, name)

		if c.name != "" {
			require.Equal(t, fault.Invalid, fault.KindOf(err), "%s: %v", name, err)
		}
	}

	p.StartBash("a", "exit 5")
	require.Equal(t, 5, p.End("a").ExitCode, "a refused start does not take the name")
}

func neverStarted(t *testing.T, h Harness) {
	p := h.place(t)
	_, err := p.Status(t.Context(), "x")
	require.Equal(t, fault.NotFound, fault.KindOf(err))
	_, err = p.Log(t.Context(), "x", "stdout", 0, 10)
	require.Equal(t, fault.NotFound, fault.KindOf(err))
	require.Equal(t, fault.NotFound, fault.KindOf(p.Kill(t.Context(), "x")))
}

func waitAtMost(t *testing.T, h Harness) {
	p := h.place(t)
	p.StartBash("long", "sleep infinity")

	for _, d := range []time.Duration{-time.Second, 0, 10 * time.Millisecond} {
		st, err := p.Wait(t.Context(), "long", d)
		require.NoError(t, err)
		require.True(t, st.Running)
	}
}

func timeout(t *testing.T, h Harness) {
	p := h.place(t)
	_, err := p.Start(t.Context(), "slow", wire.Process{
		Argv: []string{"bash", "-c", "trap '' TERM; sleep infinity & sleep infinity"}, TimeoutMillis: 100,
	})
	require.NoError(t, err)

	st := p.End("slow")
	require.True(t, st.TimedOut)
	require.Equal(t, 137, st.ExitCode)
	_, err = p.Start(t.Context(), "quick", wire.Process{Argv: []string{"true"}, TimeoutMillis: 1000_000})
	require.NoError(t, err)
	require.False(t, p.End("quick").TimedOut)
}

// A session of its own: no terminal of anybody's to write to.
func ownSession(t *testing.T, h Harness) {
	p := h.place(t)
	out := p.Bash(`read -r pid comm state ppid pgrp session tty rest < /proc/$$/stat; echo $((pid==session)) $tty`)
	require.Equal(t, "1 0\n", out.Stdout)
}

func nothingInherited(t *testing.T, h Harness) {
	p := h.place(t)
	out := p.Bash("for f in $(seq 3 99); do [ -e /proc/$$/fd/$f ] && echo extra $f; done; true")
	require.Empty(t, out.Stdout)
}

// A process that loses its parent becomes a child of sandboxd, which reaps it.
func orphansReaped(t *testing.T, h Harness) {
	p := h.place(t)
	p.Bash("for i in $(seq 20); do (sleep 0.01 &) ; done; sleep 0.1")
	p.Eventually(
		func() bool { return p.Bash("cat /proc/[0-9]*/stat | grep -c ') Z ' ; true").Stdout == "0\n" },
		"no zombies",
	)
}
