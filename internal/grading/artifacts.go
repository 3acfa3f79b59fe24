package grading

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
	"github.com/rolloutd/rolloutd/internal/sandboxd/runas"
	"github.com/rolloutd/rolloutd/internal/store"
	"github.com/rolloutd/rolloutd/internal/text"
)

// A verifier with an image of its own gets the artifacts that the task names, and nothing else of the work. Its
// sandbox shares their folders with the work, so that all rules for the work hold for them: the kernel follows no link
// in them for the verifier, and their programs run as the agent.

// maxArtifactBytes bounds all artifacts of a task together.
const maxArtifactBytes = 4 << 30

// artifact is a file or a folder of the agent's sandbox, stored as a tar.
type artifact struct {
	Path   string `json:"path"`
	Folder bool   `json:"folder,omitempty"`

	// what was left out of it
	Exclude []string `json:"exclude,omitempty"`

	// why the verifier does not get it; "": it does
	Missing string `json:"missing,omitempty"`
}

func artifactsKey(t rollout.Target) string {
	return store.AttemptKey(t.RolloutID, t.Attempt, store.Artifacts)
}

// artifactKey is the key of the tar of an artifact, by its number.
func artifactKey(t rollout.Target, n int) string {
	return store.AttemptKey(t.RolloutID, t.Attempt, store.Artifact+strconv.Itoa(n)+".tar")
}

// artifacts returns what the verifier's image gets; none if it has no image of its own. The first call ends the
// processes of the agent's sandbox, saves the artifacts and stores the list: a later call returns the same.
func (g *Grader) artifacts(ctx context.Context, job Job) ([]artifact, error) {
	if job.Verifier.Image == "" {
		return nil, nil
	}

	var all []artifact

	err := g.Store.JSON(ctx, artifactsKey(job.Target), &all)
	if job.Regrade != "" && (err == nil || fault.Is(err, fault.NotFound)) {
		return all, checkSaved(job.Verifier, all)
	}

	if !fault.Is(err, fault.NotFound) {
		return all, err
	}

	sb, release, err := g.Sandboxes.Attach(ctx, job.SandboxID())
	if err != nil {
		return nil, err
	}
	defer release()

	if err := g.still(ctx, sb, job.Target, false); err != nil {
		return nil, sb.OfMemory(ctx, err)
	}

	if err := g.collect(ctx, sb, job); err != nil {
		return nil, sb.OfMemory(ctx, err)
	}

	left := int64(maxArtifactBytes)

	for n, p := range job.Verifier.Artifacts {
		wanted := artifact{Path: p, Exclude: job.Verifier.Exclude[p]}

		a, size, err := g.saveArtifact(ctx, sb, wanted, artifactKey(job.Target, n), left)
		if err != nil {
			return nil, sb.OfMemory(ctx, err)
		}

		left -= size

		all = append(all, a)
	}

	return all, g.Store.PutJSON(ctx, artifactsKey(job.Target), all)
}

// collect runs the commands that make artifacts, and ends what they left running. How they end decides nothing: the agent
// could have made the same files, and the verifier judges those.
func (g *Grader) collect(ctx context.Context, sb *sandbox.Sandbox, job Job) error {
	if len(job.Verifier.Collect) == 0 {
		return nil
	}

	var results []rollout.CommandResult

	for n, c := range job.Verifier.Collect {
		budget := &sandbox.CommandBudget{Total: c.Limit()}

		st, err := sandbox.RunCommand(ctx, sb, fmt.Sprintf("collect-%d", n+1), sandbox.BashCommand("-c", c.Command), budget)
		if err != nil {
			return err
		}

		res, err := sandbox.CommandResult(ctx, sb, c.Command, st)
		if err != nil {
			return err
		}

		results = append(results, res)
	}

	if err := sb.KillAll(ctx); err != nil {
		return err
	}

	return g.Store.PutJSON(ctx, store.AttemptKey(job.RolloutID, job.Attempt, store.Collected), results)
}

// collectNotes say which commands that make artifacts have failed.
func (g *Grader) collectNotes(ctx context.Context, job Job) ([]string, error) {
	var (
		results []rollout.CommandResult
		notes   []string
	)

	err := g.Store.JSON(ctx, store.AttemptKey(job.RolloutID, job.Attempt, store.Collected), &results)

	for n, res := range results {
		if res.ExitCode != 0 {
			notes = append(notes, fmt.Sprintf("verifier.collect[%d] (%s) ended with exit code %d%s",
				n, text.Head(res.Cmd, 120), res.ExitCode, afterColon(lastLine(res.Stderr))))
		}
	}

	return notes, fault.Ignore(err, fault.NotFound)
}

// checkSaved refuses a regrade by a verifier that wants other artifacts than those that were saved.
func checkSaved(v rollout.Verifier, saved []artifact) error {
	var paths []string

	equal := true

	for _, a := range saved {
		paths = append(paths, a.Path)
		equal = equal && slices.Equal(a.Exclude, v.Exclude[a.Path])
	}

	switch {
	case !slices.Equal(paths, v.Artifacts):
	case !equal:
		return verifierFailed("the rollout has saved its artifacts without other files than those of verifier.exclude")
	default:
		return nil
	}

	return verifierFailed(
		"the rollout has saved the artifacts %q of its sandbox, which is gone; the verifier asks for %q", paths, v.Artifacts)
}

// saveArtifact puts a file or a folder of the agent's sandbox into the store. One that cannot be read is missing: the
// verifier judges its absence.
func (g *Grader) saveArtifact(
	ctx context.Context,
	sb *sandbox.Sandbox,
	a artifact,
	key string,
	most int64,
) (_ artifact, size int64, err error) {
	p := a.Path

	content, err := sb.GetTar(ctx, p)
	if fault.Is(err, fault.NotFound) || fault.Is(err, fault.Invalid) {
		a.Missing = text.Head(err.Error(), 200)
		return a, 0, nil
	}

	if err != nil {
		return a, 0, err
	}

	defer content.Close()

	kept, err := exclude(content, a.Exclude)
	if err != nil {
		return a, 0, err
	}

	ref, err := g.Store.Put(ctx, key, io.LimitReader(kept, most+1))
	if err != nil {
		return a, 0, err
	}

	if ref.Size > most {
		return a, 0, fault.New(fault.OutOfDisk, "the artifacts have more than %d bytes", int64(maxArtifactBytes))
	}

	if a.Folder, err = g.isFolder(ctx, sb, p, key); err != nil {
		return a, 0, err
	}

	if _, ok := rollout.ArtifactFolder(p, a.Folder); !ok {
		a.Missing = "a file must be in a folder such as /app: the verifier's programs are in " + path.Dir(p)
	}

	return a, ref.Size, nil
}

// isFolder reports whether the tar of a path is that of a folder. The tar of a file has nothing but the file, which a
// folder with one file of its own name has too.
func (g *Grader) isFolder(ctx context.Context, sb *sandbox.Sandbox, p, key string) (bool, error) {
	stored, err := g.Store.Reader(ctx, key)
	if err != nil {
		return false, err
	}
	defer stored.Close()

	entries := tar.NewReader(stored)

	first, err := entries.Next()
	if errors.Is(err, io.EOF) {
		return true, nil
	}

	if err != nil {
		return false, fault.Wrap(fault.Internal, err, "read the artifact %s", p)
	}

	if first.Typeflag != tar.TypeReg || first.Name != path.Base(p) {
		return true, nil
	}

	below, err := sb.GetTar(ctx, path.Join(p, path.Base(p)))
	switch {
	case err == nil:
		return true, below.Close()
	case fault.Is(err, fault.NotFound) || fault.Is(err, fault.Invalid):
		return false, nil
	default:
		return false, err
	}
}

// verifierSpec describes the verifier's sandbox. An image of its own has root as the owner of the artifacts, since it
// need not have the agent's user.
func verifierSpec(job Job, artifacts []artifact) rollout.Sandbox {
	s := job.Sandbox
	if job.Verifier.Image == "" {
		return s
	}

	s.Image, s.Workdir, s.ImageEnv, s.GradePaths = job.Verifier.Image, "", true, artifactFolders(artifacts)
	if s.User != "" {
		s.User = rollout.UserRoot
	}

	// they are beside the image of the task
	s.Services, s.Volumes = nil, nil

	s.Env = maps.Clone(s.Env)
	if s.Env == nil {
		s.Env = map[string]string{}
	}

	s.Env[runas.OwnImage] = "1"

	return s
}

// artifactFolders returns the folders in which the artifacts are, without those in another one.
func artifactFolders(artifacts []artifact) []string {
	var all []string

	for _, a := range artifacts {
		if folder, ok := rollout.ArtifactFolder(a.Path, a.Folder); ok && folder != "" && a.Missing == "" {
			all = append(all, folder)
		}
	}

	slices.Sort(all)
	all = slices.Compact(all)

	return slices.DeleteFunc(slices.Clone(all), func(folder string) bool {
		return slices.ContainsFunc(all, func(of string) bool { return strings.HasPrefix(folder, of+"/") })
	})
}

// restoreArtifacts puts the artifacts into the verifier's sandbox, a folder in place of the one that the image has.
func (g *Grader) restoreArtifacts(ctx context.Context, sb *sandbox.Sandbox, job Job) error {
	artifacts, err := g.artifacts(ctx, job)
	if err != nil {
		return err
	}

	for n, a := range artifacts {
		if a.Missing != "" {
			continue
		}

		if err := g.restoreArtifact(ctx, sb, a, artifactKey(job.Target, n)); err != nil {
			return fault.Wrap(fault.KindOf(err), err, "put the artifact %s", a.Path)
		}
	}

	return nil
}

func (g *Grader) restoreArtifact(ctx context.Context, sb *sandbox.Sandbox, a artifact, key string) error {
	content, err := g.Store.Reader(ctx, key)
	if err != nil {
		return err
	}
	defer content.Close()

	if a.Folder {
		return sb.Restore(ctx, a.Path, content)
	}

	return sb.PutTar(ctx, path.Dir(a.Path), content)
}

// artifactNotes say which artifacts the verifier did not get, and which commands that make them failed.
func (g *Grader) artifactNotes(ctx context.Context, job Job) ([]string, error) {
	notes, err := g.collectNotes(ctx, job)
	if err != nil {
		return nil, err
	}

	artifacts, err := g.artifacts(ctx, job)

	for _, a := range artifacts {
		if a.Missing != "" {
			notes = append(notes, fmt.Sprintf("the verifier did not get the artifact %s: %s", a.Path, a.Missing))
		}
	}

	return notes, err
}

// blameImage decides who is at fault if the sandbox of the verifier's image cannot be made: the image, if it cannot be
// made without the artifacts either.
func (g *Grader) blameImage(ctx context.Context, job Job, err error) error {
	if job.Verifier.Image == "" || !fault.Is(err, fault.Invalid) {
		return err
	}

	_, release, alone := g.Sandboxes.CreateControl(ctx, job.Target, verifierSpec(job, nil))
	switch {
	case fault.Is(alone, fault.Invalid):
		return verifierFailed("the verifier's image %s: %v", job.Verifier.Image, alone)
	case alone != nil:
		return alone
	}

	release()

	return submissionFailed("the artifacts do not fit into the verifier's image %s: %v", job.Verifier.Image, err)
}
