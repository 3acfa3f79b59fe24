package activities

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
	"github.com/rolloutd/rolloutd/internal/store"
)

// RunSetup stages the task's files, then runs its setup commands one by one. The first that fails, or outlasts the time for
// all of them, is a fault.SetupFailed.
func (a *Activities) RunSetup(ctx context.Context, in SetupInput) error {
	ctx, over, err := a.alone(ctx, in.Target)
	if err != nil {
		return err
	}
	defer over()
	sb, release, err := a.attach(ctx, in.SandboxID())
	if err != nil {
		return err
	}
	defer release()
	if err := stageFiles(ctx, sb, in); err != nil {
		return err
	}
	results, failed := runSetup(ctx, sb, in)
	if failed != nil && !fault.Is(failed, fault.SetupFailed) {
		return failed
	}
	if err := a.putJSON(ctx, store.AttemptKey(in.RolloutID, in.Attempt, store.Setup), results); err != nil {
		return err
	}
	if failed != nil {
		return failed
	}
	return a.savePackages(ctx, sb, in.Target)
}

// stageFiles writes the files, unless a command has started already: it may have changed them.
func stageFiles(ctx context.Context, sb *sandbox.Sandbox, in SetupInput) error {
	if begun, err := started(ctx, sb, setupName(0)); err != nil || begun {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(in.Files)) {
		path, err := rollout.FilePath(name)
		if err != nil {
			return err
		}
		text := in.Files[name]
		if err := sb.WriteFile(ctx, path, strings.NewReader(text), fileMode(text)); err != nil {
			return fault.Wrap(fault.KindOf(err), err, "stage %s", path)
		}
	}
	return nil
}

// fileMode makes scripts executable.
func fileMode(text string) fs.FileMode {
	if strings.HasPrefix(text, "#!") {
		return 0o755
	}
	return 0o644
}

// runSetup returns the results so far and why it stopped.
func runSetup(ctx context.Context, sb *sandbox.Sandbox, in SetupInput) ([]rollout.CommandResult, error) {
	results := []rollout.CommandResult{}
	d := &deadline{budget: in.Timeout}
	for i, cmd := range in.Commands {
		st, err := shell(ctx, sb, setupName(i), bash("-c", cmd), d)
		if err != nil {
			return results, err
		}
		res, err := resultOf(ctx, sb, cmd, st)
		if err != nil {
			return results, err
		}
		results = append(results, res)
		if st.TimedOut || st.ExitCode != 0 {
			return results, fault.New(fault.SetupFailed, "setup command %d of %d (%s): %s%s",
				i+1, len(in.Commands), head(cmd, 120), why(st, in.Timeout), said(res))
		}
	}
	return results, nil
}

func setupName(i int) string { return fmt.Sprintf("setup-%d", i+1) }

// said is the end of what a failed command wrote.
func said(res rollout.CommandResult) string {
	text := strings.TrimSpace(res.Stderr)
	if text == "" {
		text = strings.TrimSpace(res.Stdout)
	}
	if text == "" {
		return ""
	}
	return ": " + tail(text, 300)
}
