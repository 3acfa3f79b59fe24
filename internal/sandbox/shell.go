package sandbox

import (
	"context"
	"fmt"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
	"github.com/rolloutd/rolloutd/internal/text"
)

const (
	// characters of each stream in a CommandResult
	outputTail = 2000

	// bounds one status request for a running command
	waitStep = 20 * time.Second
)

// CommandBudget bounds the running time of a sequence of commands. It counts the time for which they ran,
// as the sandbox reports it: a retried activity gets no more of it, and time in which no worker was there
// to start the next command is not counted.
type CommandBudget struct {
	Total time.Duration
	spent time.Duration
}

// Spend counts time in which a command delayed the start of the next one.
func (b *CommandBudget) Spend(d time.Duration) { b.spent += d }

// RunCommand runs argv as the named process in the workdir, with the environment env, and returns its final
// status. If a process of that name runs or has run, it waits for that one. It does not start a command
// without time left: the status then has TimedOut and no StartedAt.
func RunCommand(ctx context.Context, sb *Sandbox, name string, p wire.Process, b *CommandBudget) (wire.Status, error) {
	st, err := sb.Status(ctx, name)
	if fault.Is(err, fault.NotFound) {
		left := b.Total - b.spent
		if left <= 0 {
			return wire.Status{Name: name, TimedOut: true, ExitCode: -1}, nil
		}

		p.TimeoutMillis = max(left.Milliseconds(), 1)
		st, err = sb.Start(ctx, name, p)
	}

	for err == nil && st.Running {
		st, err = sb.Wait(ctx, name, waitStep)
	}

	if err == nil {
		b.spent += st.Ran
	}

	return st, err
}

// BashCommand is a process of bash with these arguments in the workdir. It reads no profile files, which an
// agent could have written.
func BashCommand(args ...string) wire.Process {
	return wire.Process{
		Argv: append([]string{"bash", "--noprofile", "--norc"}, args...),
		Dir:  rollout.Workdir, Env: map[string]string{"LANG": "C.UTF-8"},
	}
}

// CommandResult describes a command that has ended, with the last characters of its output.
func CommandResult(ctx context.Context, sb *Sandbox, cmd string, st wire.Status) (rollout.CommandResult, error) {
	res := rollout.CommandResult{Cmd: cmd, ExitCode: st.ExitCode, DurationS: st.Ran.Seconds()}
	if st.StartedAt.IsZero() {
		// there was no time left to start it
		return res, nil
	}

	var err error
	if res.Stdout, err = output(ctx, sb, st, "stdout"); err != nil {
		return res, err
	}

	res.Stderr, err = output(ctx, sb, st, "stderr")

	return res, err
}

func output(ctx context.Context, sb *Sandbox, st wire.Status, stream string) (string, error) {
	// a character has at most four bytes
	raw, err := sb.Tail(ctx, st, stream, 4*outputTail)
	return text.Tail(string(raw), outputTail), err
}

// CommandStarted reports whether the named process was ever started in the sandbox.
func CommandStarted(ctx context.Context, sb *Sandbox, name string) (bool, error) {
	_, err := sb.Status(ctx, name)
	if fault.Is(err, fault.NotFound) {
		return false, nil
	}

	return err == nil, err
}

// CommandFailure returns why a command failed.
func CommandFailure(st wire.Status, budget time.Duration) string {
	switch {
	case st.TimedOut:
		return fmt.Sprintf("it did not end within %s", budget)
	case st.Signal != "":
		return "it was killed by signal " + st.Signal
	default:
		return fmt.Sprintf("exit code %d", st.ExitCode)
	}
}
