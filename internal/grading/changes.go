package grading

import (
	"context"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
	"github.com/rolloutd/rolloutd/internal/sandboxd/files"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
	"github.com/rolloutd/rolloutd/internal/store"
)

// Bounds of the folders that an agent has changed elsewhere in its image and that go to the verifier. What
// exceeds them is unseen.
const (
	maxChanged      = 16
	maxChangedBytes = files.MaxChangedBytes
	maxUnseen       = 50
)

// solution is where the agent oracle puts a task's solution.
const solution = "/solution"

// searched are the folders whose changed entries are listed.
func searched() []string {
	return []string{"/", "/etc", "/home", "/opt", "/usr", "/usr/local", "/var", "/var/lib"}
}

// mayCarry reports whether a changed folder may go to the verifier. What the verifier's own programs look for by
// themselves must not: the system's folders, the records and libraries of package managers (a Ruby of Debian
// loads what is in /var/lib/gems), and folders of "/" that a tool finds from the tests folder upwards, such as
// /node_modules and /.cargo.
func mayCarry(folder string) bool {
	if rollout.CheckGradePath("", folder) != nil || strings.ContainsFunc(folder, isOdd) {
		return false
	}

	for _, of := range []string{rollout.TmpDir, "/var/lib", "/var/cache", "/nix", "/snap", "/node_modules"} {
		if folder == of || strings.HasPrefix(folder, of+"/") {
			return false
		}
	}

	return !strings.HasPrefix(folder, "/.")
}

// isOdd reports whether a character is none of an ordinary name. The agent chooses the names, which become mount
// points, parts of lists and variables.
func isOdd(c rune) bool {
	return c == unicode.ReplacementChar || !unicode.IsLetter(c) && !unicode.IsDigit(c) && !strings.ContainsRune("/ ._-+@,=~", c)
}

// changedFolders returns the folders that the agent has changed outside of what the verifier gets anyway. It
// stills the agent's processes, and stores what it found: a later call returns the same.
func (g *Grader) changedFolders(ctx context.Context, job Job) ([]string, error) {
	all, err := g.changes(ctx, job)
	if !fault.Is(err, fault.NotFound) || job.Sandbox.User == "" {
		return foldersOf(all), fault.Ignore(err, fault.NotFound)
	}

	// an earlier version saved the home without a look at the rest
	saved, err := g.Store.Exists(ctx, store.AttemptKey(job.RolloutID, job.Attempt, store.Home))
	if err == nil && !saved {
		all, err = g.findChanges(ctx, job)
	}

	return foldersOf(all), err
}

// changes returns the stored changes; without any, a fault.NotFound.
func (g *Grader) changes(ctx context.Context, job Job) ([]wire.Change, error) {
	var all []wire.Change

	err := g.Store.JSON(ctx, changesKey(job.Target), &all)

	return all, err
}

func (g *Grader) findChanges(ctx context.Context, job Job) ([]wire.Change, error) {
	sb, release, err := g.Sandboxes.Attach(ctx, job.SandboxID())
	if err != nil {
		return nil, err
	}
	defer release()

	if err := g.still(ctx, sb, job.Target, job.Verifier.Live()); err != nil {
		return nil, sb.OfMemory(ctx, err)
	}

	// nothing of the home stands where the tar has the changed folders
	if err := sb.Remove(ctx, wire.AgentChanged); err != nil {
		return nil, sb.OfMemory(ctx, err)
	}

	all, err := sb.Changes(ctx, searched()...)
	if err != nil {
		return nil, sb.OfMemory(ctx, err)
	}

	fits, err := fitsTar(ctx, sb, foldersOf(all))
	if err != nil {
		return nil, sb.OfMemory(ctx, err)
	}

	for n := range all {
		all[n].Folder = all[n].Folder && fits
	}

	return all, g.Store.PutJSON(ctx, changesKey(job.Target), all)
}

// fitsTar reports whether the home and the folders fit into one tar. A home that is too large alone fails
// when it is saved.
func fitsTar(ctx context.Context, sb *sandbox.Sandbox, folders []string) (bool, error) {
	if len(folders) == 0 {
		return true, nil
	}

	content, err := sb.GetHome(ctx, folders)
	switch {
	case err == nil:
		return true, content.Close()
	case fault.Is(err, fault.Unavailable) || fault.Is(err, fault.SandboxLost) || ctx.Err() != nil:
		return false, err
	default:
		return false, nil
	}
}

func changesKey(t rollout.Target) string {
	return store.AttemptKey(t.RolloutID, t.Attempt, store.Changes)
}

// foldersOf returns the changed folders that may go to the verifier.
func foldersOf(all []wire.Change) []string {
	var (
		folders []string
		bytes   int64
	)

	for _, c := range all {
		fits := len(folders) < maxChanged && c.Bytes >= 0 && c.Bytes <= maxChangedBytes-bytes
		if c.Folder && fits && mayCarry(c.Path) {
			folders = append(folders, c.Path)
			bytes += c.Bytes
		}
	}

	return folders
}

// refused returns the entries of the home's tar with changed folders that the verifier's sandbox did not
// get, because the image has programs there.
func (g *Grader) refused(ctx context.Context, sb *sandbox.Sandbox, job Job) ([]string, error) {
	all, err := g.changes(ctx, job)
	if err != nil {
		return nil, fault.Ignore(err, fault.NotFound)
	}

	info, err := sb.Info(ctx)
	if err != nil {
		return nil, err
	}

	var skip []string

	for n, folder := range foldersOf(all) {
		if !slices.Contains(info.Shared, folder) {
			skip = append(skip, path.Join(path.Base(wire.AgentChanged), strconv.Itoa(n)))
		}
	}

	return skip, nil
}

// unseen returns the changes that are not in the verifier's sandbox.
func (g *Grader) unseen(ctx context.Context, sb *sandbox.Sandbox, job Job) ([]string, error) {
	all, err := g.changes(ctx, job)
	if err != nil || job.Verifier.Image != "" {
		return nil, fault.Ignore(err, fault.NotFound)
	}

	info, err := sb.Info(ctx)
	if err != nil {
		return nil, err
	}

	var paths []string

	for _, c := range all {
		if len(paths) < maxUnseen && c.Path != solution && !slices.Contains(info.Shared, c.Path) {
			paths = append(paths, strings.ToValidUTF8(c.Path, "?"))
		}
	}

	return paths, nil
}
