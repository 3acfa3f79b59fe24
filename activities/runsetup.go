package activities

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
	"github.com/rolloutd/rolloutd/internal/shell"
	"github.com/rolloutd/rolloutd/internal/store"
	"github.com/rolloutd/rolloutd/internal/text"
)

// RunSetup stages the task's files, then runs its setup commands one by one. The first that fails, or outlasts the time for
// all of them, is a fault.SetupFailed.
func (a *Activities) RunSetup(ctx context.Context, in SetupInput) error {
	ctx, over, err := a.alone(ctx, in.Target)
	if err != nil {
		return err
	}
	defer over()
	sb, release, err := a.attach(ctx, in.Target)
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
	if err := a.o.Store.PutJSON(ctx, store.AttemptKey(in.RolloutID, in.Attempt, store.Setup), results); err != nil {
		return err
	}
	if failed != nil {
		return failed
	}
	return a.grader(in.Target).SavePackages(ctx, sb, in.Target)
}

// stageFiles writes the files, unless a command has started already: it may have changed them.
func stageFiles(ctx context.Context, sb *sandbox.Sandbox, in SetupInput) error {
	if begun, err := shell.Started(ctx, sb, setupName(0)); err != nil || begun {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(in.Files)) {
		path, err := rollout.FilePath(name)
		if err != nil {
			return err
		}
		content := in.Files[name]
		if err := sb.WriteFile(ctx, path, strings.NewReader(content), fileMode(content)); err != nil {
			return fault.Wrap(fault.KindOf(err), err, "stage %s", path)
		}
	}
	return nil
}

// fileMode makes scripts executable.
func fileMode(content string) fs.FileMode {
	if strings.HasPrefix(content, "#!") {
		return 0o755
	}
	return 0o644
}

// runSetup returns the results so far and why it stopped.
func runSetup(ctx context.Context, sb *sandbox.Sandbox, in SetupInput) ([]rollout.CommandResult, error) {
	results := []rollout.CommandResult{}
	budget := &shell.Budget{Total: in.Timeout}
	for i, cmd := range in.Commands {
		st, err := shell.Run(ctx, sb, setupName(i), shell.Bash("-c", cmd), budget)
		if err != nil {
			return results, err
		}
		res, err := shell.Result(ctx, sb, cmd, st)
		if err != nil {
			return results, err
		}
		results = append(results, res)
		if st.TimedOut || st.ExitCode != 0 {
			return results, fault.New(fault.SetupFailed, "setup command %d of %d (%s): %s%s",
				i+1, len(in.Commands), text.Head(cmd, 120), shell.Why(st, in.Timeout), said(res))
		}
	}
	return results, nil
}

func setupName(i int) string { return fmt.Sprintf("setup-%d", i+1) }

// said is the end of what a failed command wrote.
func said(res rollout.CommandResult) string {
	out := cmp.Or(strings.TrimSpace(res.Stderr), strings.TrimSpace(res.Stdout))
	if out == "" {
		return ""
	}
	return ": " + text.Tail(out, 300)
}
