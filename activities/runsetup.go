package activities

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/host/network"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
	"github.com/rolloutd/rolloutd/internal/store"
	"github.com/rolloutd/rolloutd/internal/text"
)

// RunSetup stages the task's files, then runs its setup commands one by one. A command that fails, or
// exceeds the time for all commands, is a fault.SetupFailed.
func (a *Activities) RunSetup(ctx context.Context, in SetupInput) error {
	ctx, over, err := a.acquireAttempt(ctx, in.Target)
	if err != nil {
		return err
	}
	defer over()

	a.phase(in.Target, rollout.PhaseSetup)

	sb, release, err := a.attach(ctx, in.Target)
	if err != nil {
		return err
	}
	defer release()

	if err := a.stageWork(ctx, sb, in); err != nil {
		return err
	}

	sb, offline, err := a.withNetwork(ctx, in.Target, sb, network.Setup, in.Network.ForSetup())
	if err != nil {
		return err
	}
	defer offline()

	results, failed := a.runSetup(ctx, sb, in)

	causes, _, err := a.recordCauses(ctx, in.Target, rollout.PhaseSetup)
	if err != nil {
		return err
	}

	if failed != nil && !fault.Is(failed, fault.SetupFailed) {
		return failed
	}

	if err := a.o.Store.PutJSON(ctx, store.AttemptKey(in.RolloutID, in.Attempt, store.Setup), results); err != nil {
		return err
	}

	if failed != nil {
		return withCauses(failed, causes)
	}

	// what an earlier step of the agent has installed is in the sandbox as well
	if in.From > 0 {
		return nil
	}

	return a.grader(in.Target).SavePackages(ctx, sb, in.Target)
}

// stageWork puts the work of the step before and the task's files into the sandbox, unless a command has started,
// which may have changed them.
func (a *Activities) stageWork(ctx context.Context, sb *sandbox.Sandbox, in SetupInput) error {
	if started, err := sandbox.CommandStarted(ctx, sb, setupName(0)); err != nil || started {
		return err
	}

	if in.From > 0 {
		if err := a.grader(in.Target).RestoreWork(ctx, sb, in.Target, in.From); err != nil {
			return err
		}
	}

	return a.stageFiles(ctx, sb, in)
}

func (a *Activities) stageFiles(ctx context.Context, sb *sandbox.Sandbox, in SetupInput) error {
	var archive io.ReadCloser

	switch {
	case in.FilesRef != nil:
		var err error
		if archive, err = a.o.Store.Reader(ctx, in.FilesRef.Key); err != nil {
			return err
		}
	case len(in.Files) > 0:
		archive = store.ArchiveOf(in.Files)
	default:
		return nil
	}

	defer archive.Close()

	err := sb.PutTar(ctx, rollout.Home, archive)

	return fault.Wrap(fault.KindOf(err), err, "stage the task's files")
}

// runSetup returns the results so far and the error that stopped it.
func (a *Activities) runSetup(
	ctx context.Context,
	sb *sandbox.Sandbox,
	in SetupInput,
) ([]rollout.CommandResult, error) {
	results := []rollout.CommandResult{}
	budget := &sandbox.CommandBudget{Total: in.Timeout}

	log := a.o.Events.Of(in.Target)
	for i, cmd := range in.Commands {
		command(log, rollout.StageSetup, i+1, cmd, nil)

		st, err := sandbox.RunCommand(ctx, sb, setupName(i), sandbox.BashCommand("-c", cmd), budget)
		if err != nil {
			return results, err
		}

		res, err := sandbox.CommandResult(ctx, sb, cmd, st)
		if err != nil {
			return results, err
		}

		results = append(results, res)
		command(log, rollout.StageSetup, i+1, cmd, &res)

		if st.TimedOut || st.ExitCode != 0 {
			return results, fault.New(fault.SetupFailed, "setup command %d of %d (%s): %s%s",
				i+1, len(in.Commands), text.Head(cmd, 120), sandbox.CommandFailure(st, in.Timeout), outputTail(res))
		}
	}

	return results, nil
}

// withCauses adds resource causes to an error.
func withCauses(err error, causes []rollout.ResourceCause) error {
	if len(causes) == 0 {
		return err
	}

	return fault.New(fault.KindOf(err), "%v; %s", err, rollout.CausesInWords(causes))
}

func setupName(i int) string { return fmt.Sprintf("setup-%d", i+1) }

// outputTail is the end of a failed command's output.
func outputTail(res rollout.CommandResult) string {
	out := cmp.Or(strings.TrimSpace(res.Stderr), strings.TrimSpace(res.Stdout))
	if out == "" {
		return ""
	}

	return ": " + text.Tail(out, 300)
}
