package activities

import (
	"context"
	"fmt"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

const (
	commandTail = 2000             // characters of each stream that a CommandResult keeps
	waitStep    = 20 * time.Second // of one look at a running command
)

// deadline bounds a row of commands by the time for which they run, as the sandbox tells it: a second run of the activity does
// not give them more, and the time in which no worker was there to start the next one does not take from them.
type deadline struct{ budget, spent time.Duration }

func (d *deadline) left() time.Duration { return d.budget - d.spent }

// shell runs a bash command as the named process, in the workdir and a clean environment, and returns when it has ended. A
// process of that name that runs, or ran, is the same command: it is waited for and not run again.
func shell(ctx context.Context, sb *sandbox.Sandbox, name string, argv []string, d *deadline) (wire.Status, error) {
	st, err := sb.Status(ctx, name)
	if fault.Is(err, fault.NotFound) {
		left := d.left()
		if left <= 0 {
			return wire.Status{Name: name, TimedOut: true, ExitCode: -1}, nil
		}
		st, err = sb.Start(ctx, name, wire.Process{
			Argv: argv, Dir: rollout.Workdir, Env: map[string]string{"LANG": "C.UTF-8"}, TimeoutMillis: max(left.Milliseconds(), 1),
		})
	}
	for err == nil && st.Running {
		st, err = sb.Wait(ctx, name, waitStep)
	}
	if err == nil {
		d.spent += st.Ran
	}
	return st, err
}

// bash is a command line for bash without the profile files that an agent could have written.
func bash(args ...string) []string { return append([]string{"bash", "--noprofile", "--norc"}, args...) }

// resultOf tells a command's end with the ends of its output.
func resultOf(ctx context.Context, sb *sandbox.Sandbox, cmd string, st wire.Status) (rollout.CommandResult, error) {
	res := rollout.CommandResult{Cmd: cmd, ExitCode: st.ExitCode, DurationS: st.Ran.Seconds()}
	if st.StartedAt.IsZero() {
		return res, nil // there was no time left to start it
	}
	var err error
	if res.Stdout, err = output(ctx, sb, st.Name, "stdout", commandTail); err != nil {
		return res, err
	}
	res.Stderr, err = output(ctx, sb, st.Name, "stderr", commandTail)
	return res, err
}

// output is the last n characters of a stream.
func output(ctx context.Context, sb *sandbox.Sandbox, name, stream string, n int) (string, error) {
	raw, err := sb.Tail(ctx, name, stream, 4*n) // a character has at most four bytes
	return tail(string(raw), n), err
}

// started says whether the named process was ever started in the sandbox.
func started(ctx context.Context, sb *sandbox.Sandbox, name string) (bool, error) {
	_, err := sb.Status(ctx, name)
	if fault.Is(err, fault.NotFound) {
		return false, nil
	}
	return err == nil, err
}

// why says in words how a command failed.
func why(st wire.Status, budget time.Duration) string {
	switch {
	case st.TimedOut:
		return fmt.Sprintf("it did not end within %s", budget)
	case st.Signal != "":
		return "it was killed by signal " + st.Signal
	default:
		return fmt.Sprintf("exit code %d", st.ExitCode)
	}
}
