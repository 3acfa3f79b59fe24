package grading

import (
	"context"
	"fmt"

	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
	"github.com/rolloutd/rolloutd/internal/shell"
	"github.com/rolloutd/rolloutd/internal/store"
	"github.com/rolloutd/rolloutd/internal/text"
)

const (
	scriptProcess = "verify-script"
	scriptStdout  = 4000    // characters of the script's output in a Result
	scriptStderr  = 2000    //
	keptOutput    = 1 << 20 // bytes of each of the script's streams in the store
)

func commandProcess(i int) string { return fmt.Sprintf("verify-%d", i+1) }

// firstProcess is the one whose start means that grading has begun.
func firstProcess(v rollout.Verifier) string {
	if v.Script != "" {
		return scriptProcess
	}
	return commandProcess(0)
}

// runVerifier runs the script, then every command, and records their results. timedOut names the process for which the
// verifier's time did not suffice; what comes after it is not run.
func (g *Grader) runVerifier(ctx context.Context, sb *sandbox.Sandbox, job Job) (record Record, timedOut string, err error) {
	record.Commands = []rollout.CommandResult{}
	budget := &shell.Budget{Total: job.Timeout}
	if job.Verifier.Script != "" {
		st, err := shell.Run(ctx, sb, scriptProcess, shell.Bash(rollout.TestScript), budget)
		if err == nil {
			err = g.saveScriptOutput(ctx, sb, job.Target, &record)
		}
		if err != nil {
			return record, "", err
		}
		res, err := shell.Result(ctx, sb, rollout.TestScript, st)
		record.Script = &res
		if err != nil || st.TimedOut {
			return record, "the test script", err
		}
	}
	for i, cmd := range job.Verifier.Commands {
		st, err := shell.Run(ctx, sb, commandProcess(i), shell.Bash("-c", cmd), budget)
		if err != nil {
			return record, "", err
		}
		res, err := shell.Result(ctx, sb, cmd, st)
		record.Commands = append(record.Commands, res)
		if err != nil || st.TimedOut {
			return record, fmt.Sprintf("verify command %d (%s)", i+1, text.Head(cmd, 120)), err
		}
	}
	return record, "", nil
}

// saveScriptOutput keeps the last characters of the script's output in the record and up to keptOutput bytes in the store.
func (g *Grader) saveScriptOutput(ctx context.Context, sb *sandbox.Sandbox, t rollout.Target, record *Record) error {
	for _, s := range []struct {
		stream, name string
		n            int
		into         *string
	}{
		{"stdout", store.VerifierStdout, scriptStdout, &record.Stdout}, {"stderr", store.VerifierStderr, scriptStderr, &record.Stderr},
	} {
		raw, err := sb.Tail(ctx, scriptProcess, s.stream, keptOutput)
		if err != nil {
			return err
		}
		*s.into = text.Tail(string(raw), s.n)
		if _, err := g.Store.PutBytes(ctx, store.AttemptKey(t.RolloutID, t.Attempt, s.name), raw); err != nil {
			return err
		}
	}
	return nil
}
