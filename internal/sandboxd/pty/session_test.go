package pty_test

import (
	"context"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/sandboxd/prestart"
	"github.com/rolloutd/rolloutd/internal/sandboxd/process"
	"github.com/rolloutd/rolloutd/internal/sandboxd/pty"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// TestMain lets this binary act as the sandboxd binary that starts processes.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == prestart.Command {
		_ = prestart.Run()

		os.Exit(1)
	}

	os.Exit(m.Run())
}

// shell is a bash that runs the commands of a test.
type shell struct {
	tb       testing.TB
	table    *process.Table
	sessions *pty.Sessions
	shell    wire.Process
	calls    int
}

// newShell starts a process table with a shell that has these variables. Only one may exist at a time,
// because the table reaps all children.
func newShell(tb testing.TB, env map[string]string) *shell {
	tb.Helper()

	self, err := os.Executable()
	require.NoError(tb, err)

	table := process.New(process.Options{Program: self, Logger: slog.New(slog.DiscardHandler)})
	// ends after the shell, whose end it must see
	ctx, cancel := context.WithCancel(context.Background())
	tb.Cleanup(cancel)

	go func() { _ = table.Run(ctx) }()

	env["PATH"] = os.Getenv("PATH")
	s := &shell{tb: tb, table: table, sessions: pty.New(table), shell: wire.Process{
		Argv: []string{"bash", "--noprofile", "--norc", "-i", "+H"}, Dir: tb.TempDir(), Env: env,
	}}
	tb.Cleanup(func() { require.NoError(tb, s.sessions.Delete("main")) })

	return s
}

func (s *shell) call(c wire.PTYCall) wire.PTYAnswer {
	s.tb.Helper()
	s.calls++
	c.Shell, c.TimeoutMillis = s.shell, (5 * time.Minute).Milliseconds()
	a, err := s.sessions.Call(s.tb.Context(), "main", strconv.Itoa(s.calls), c, 5*time.Minute)
	require.NoError(s.tb, err)
	require.False(s.tb, a.Running || a.TimedOut, a.Error)

	return a
}

// run runs a command and returns what it printed.
func (s *shell) run(command string) string {
	s.tb.Helper()
	a := s.call(wire.PTYCall{Action: wire.PTYRun, Command: command})
	require.Zero(s.tb, a.ExitCode, a.Error)

	return string(a.Output.Head)
}

// In a locale without multibyte characters readline draws the prompt again while a command is typed. The
// command has not ended then, even if commands have removed the end mark from the prompt.
func TestPromptDrawnAgain(t *testing.T) {
	s := newShell(t, map[string]string{"LC_ALL": "C"})
	for _, before := range []string{"", "set -u", "PROMPT_COMMAND=:", "unset _prompts"} {
		s.run(before)

		for range 3 {
			output := s.run(`echo "$(echo two)" | cat; sleep 0.05; echo three`)
			require.Equal(t, "two\r\nthree\r\n", strings.TrimSuffix(output, "\x1b[?2004h"), before)
		}
	}
}

// After a long output the screen shows its end.
func TestLongOutput(t *testing.T) {
	s := newShell(t, map[string]string{"LC_ALL": "C.UTF-8"})
	s.call(wire.PTYCall{Action: wire.PTYStart, Cols: 40, Rows: 10})
	s.run(`seq 1000000`)
	screen := s.call(wire.PTYCall{Action: wire.PTYCapture})
	require.Regexp(t, `^99999[2-9]\n(\d+\n)+1000000\n.*[$#]$`, string(screen.Text))
}

// A killed process has ended when the kill returns, so that no call runs in a stopped shell. Here its output is final only
// later, since a process that it left behind holds it.
func TestKilledProcessHasEnded(t *testing.T) {
	s := newShell(t, map[string]string{})
	spec := s.shell
	spec.Argv = []string{"sh", "-c", "setsid -f sh -c 'echo left; exec sleep 2'; exec sleep 60"}

	p, err := s.table.Start("p", spec)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		head, _, _ := p.Stream("stdout").Ends()
		return string(head) == "left\n"
	}, time.Minute, time.Millisecond)

	require.NoError(t, s.table.Kill(p))
	require.False(t, p.Running())
}

// BenchmarkLongOutput measures commands that print 100 MB to the stateful shell.
func BenchmarkLongOutput(b *testing.B) {
	for name, command := range map[string]string{
		"lines":   `base64 /dev/zero | head -c 100000000`,
		"short":   `yes abcdefg | head -c 100000000`,
		"colours": `yes "$(printf '\033[32mit works\033[0m')" | head -c 100000000`,
		"line":    `base64 -w 0 /dev/zero | head -c 100000000`,
		"cursor":  `yes "$(printf 'a longer line that moves the cursor\033[2;3H')" | head -c 100000000`,
	} {
		b.Run(name, func(b *testing.B) {
			s := newShell(b, map[string]string{"LC_ALL": "C.UTF-8"})
			b.SetBytes(100_000_000)

			for b.Loop() {
				s.run(command)
			}
		})
	}
}
