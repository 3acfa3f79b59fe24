package activities

import (
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
	"github.com/rolloutd/rolloutd/internal/store"
)

const (
	scriptProcess = "verify-script"
	scriptStdout  = 4000 // characters that a Result carries
	scriptStderr  = 2000
	keptOutput    = 1 << 20 // bytes of the verifier's streams that the store keeps
)

func commandName(i int) string { return fmt.Sprintf("verify-%d", i+1) }

// firstProcess is the one whose start means that grading has begun.
func firstProcess(v rollout.Verifier) string {
	if v.Script != "" {
		return scriptProcess
	}
	return commandName(0)
}

// prepare restores the workspace where it is a fresh sandbox, clears the places that the agent must not have touched or puts
// back what setup had there, and stages the script. All of it may run again until the verifier's first process starts.
func (a *Activities) prepare(ctx context.Context, sb *sandbox.Sandbox, in VerifyInput) error {
	if err := a.restoreHome(ctx, sb, in); err != nil {
		return err
	}
	// Unpacking a folder makes it take the place of a link or a file: an agent that put one there must not get away with a
	// verifier that cannot run.
	ways := folders(rollout.Workdir, path.Dir(rollout.VerifierDir), path.Dir(rollout.Packages))
	if err := sb.PutTar(ctx, rollout.Home, ways); err != nil {
		return err
	}
	if err := removeAll(ctx, sb, rollout.TestsDir, rollout.VerifierDir, rollout.Packages); err != nil {
		return err
	}
	if err := a.restore(ctx, sb, in.Target, store.Packages, rollout.Packages); unless(fault.NotFound, err) != nil {
		return err
	}
	if err := sb.PutTar(ctx, rollout.Home, folders(rollout.VerifierDir)); err != nil {
		return err
	}
	if in.Verifier.Script == "" {
		return nil
	}
	return sb.WriteFile(ctx, rollout.TestScript, strings.NewReader(in.Verifier.Script), 0o755)
}

func (a *Activities) restoreHome(ctx context.Context, sb *sandbox.Sandbox, in VerifyInput) error {
	if in.Verifier.SameSandbox {
		return sb.KillAll(ctx)
	}
	// The folders that every sandbox begins with make way: something else may stand there in the saved home.
	if err := removeAll(ctx, sb, rollout.Workdir, path.Dir(rollout.VerifierDir)); err != nil {
		return err
	}
	return a.restore(ctx, sb, in.Target, store.Home, rollout.Home)
}

// restore unpacks a blob of the attempt into the folder.
func (a *Activities) restore(ctx context.Context, sb *sandbox.Sandbox, t Target, blob, folder string) error {
	content, err := a.o.Store.Reader(ctx, store.AttemptKey(t.RolloutID, t.Attempt, blob))
	if err != nil {
		return err
	}
	defer content.Close()
	err = sb.PutTar(ctx, folder, content)
	return fault.Wrap(fault.KindOf(err), err, "restore %s", folder)
}

// removeAll removes whole trees; of a link that stands there the link, not what it leads to.
func removeAll(ctx context.Context, sb *sandbox.Sandbox, paths ...string) error {
	for _, p := range paths {
		if err := sb.Remove(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// hear runs the script, then every command, and keeps what they say. timedOut names what the verifier's time did not suffice
// for; the rest is not run then.
func (a *Activities) hear(ctx context.Context, sb *sandbox.Sandbox, in VerifyInput) (record verdictRecord, timedOut string, err error) {
	record.Commands = []rollout.CommandResult{}
	d := &deadline{budget: in.Timeout}
	if in.Verifier.Script != "" {
		st, err := shell(ctx, sb, scriptProcess, bash(rollout.TestScript), d)
		if err == nil {
			err = a.keepScript(ctx, sb, in.Target, &record)
		}
		if err != nil {
			return record, "", err
		}
		res, err := resultOf(ctx, sb, rollout.TestScript, st)
		record.Script = &res
		if err != nil || st.TimedOut {
			return record, "the test script", err
		}
	}
	for i, cmd := range in.Verifier.Commands {
		st, err := shell(ctx, sb, commandName(i), bash("-c", cmd), d)
		if err != nil {
			return record, "", err
		}
		res, err := resultOf(ctx, sb, cmd, st)
		record.Commands = append(record.Commands, res)
		if err != nil || st.TimedOut {
			return record, fmt.Sprintf("verify command %d (%s)", i+1, head(cmd, 120)), err
		}
	}
	return record, "", nil
}

// keepScript keeps the script's output: the ends in the record, more of it in the store.
func (a *Activities) keepScript(ctx context.Context, sb *sandbox.Sandbox, t Target, record *verdictRecord) error {
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
		*s.into = tail(string(raw), s.n)
		if _, err := a.o.Store.PutBytes(ctx, store.AttemptKey(t.RolloutID, t.Attempt, s.name), raw); err != nil {
			return err
		}
	}
	return nil
}
