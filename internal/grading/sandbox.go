package grading

import (
	"context"
	"errors"
	"path"
	"strings"
	"sync"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
	"github.com/rolloutd/rolloutd/internal/store"
)

// verifierSandbox returns the prepared sandbox in which the attempt is graded. It has the files of the
// agent and of the verifier, and no process of the agent. A sandbox in which the verifier has started is
// returned unchanged.
func (g *Grader) verifierSandbox(ctx context.Context, job Job, record *Record) (*sandbox.Sandbox, func(), error) {
	sb, release, err := g.openSandbox(ctx, job)
	if err != nil {
		return nil, nil, err
	}

	started, err := sandbox.CommandStarted(ctx, sb, firstProcess(job.Verifier))
	if err == nil && !started {
		err = g.prepare(ctx, sb, job)
	}

	if err != nil {
		noteCauses(ctx, sb, record)

		err = g.handleLostSandbox(ctx, sb, record, err)

		release()

		return nil, nil, err
	}

	return sb, release, nil
}

// openSandbox returns a fresh sandbox. It is made, empty, while the agent's processes end and their home is saved.
func (g *Grader) openSandbox(ctx context.Context, job Job) (*sandbox.Sandbox, func(), error) {
	if err := g.forgetLive(ctx, job); err != nil {
		return nil, nil, err
	}

	changed, err := g.changedFolders(ctx, job)
	if err != nil {
		return nil, nil, blame(err, "look for changes")
	}

	artifacts, err := g.artifacts(ctx, job)
	if err != nil {
		return nil, nil, blame(err, "save the artifacts")
	}

	var (
		saveErr error
		saving  sync.WaitGroup
	)
	saving.Go(func() { saveErr = g.saveHome(ctx, job.Target, job.Verifier.Live(), changed) })

	sb, release, err := g.createSandbox(ctx, job, changed, artifacts)

	saving.Wait()

	if saveErr != nil {
		if err == nil {
			// CloseSandbox destroys it
			release()
		}

		return nil, nil, blame(saveErr, "save the workspace")
	}

	if err != nil {
		return nil, nil, g.blameImage(ctx, job, retryable(err))
	}

	if job.Regrade != "" {
		// the agent's sandbox is gone
		return sb, release, nil
	}

	releaseAgents := g.keepAgentSandbox(ctx, job.Target)

	return sb, func() { release(); releaseAgents() }, nil
}

// createSandbox creates the verifier's sandbox, without any file of the agent.
func (g *Grader) createSandbox(
	ctx context.Context,
	job Job,
	changed []string,
	artifacts []artifact,
) (*sandbox.Sandbox, func(), error) {
	spec := verifierSpec(job, artifacts)
	if job.Verifier.Image == "" {
		spec.Changed = changed
	}

	target := job.Target
	// those of the agent go on, or there are none beside an image of the verifier's own
	if job.Verifier.Live() || job.Verifier.Image != "" {
		target.Services = ""
	}

	return g.Sandboxes.CreateVerifier(ctx, target, spec)
}

// keepAgentSandbox renews the lease of the agent's sandbox while another one is graded, because its logs are collected
// afterwards. Grading itself does not need it, so its loss is only logged.
func (g *Grader) keepAgentSandbox(ctx context.Context, t rollout.Target) (release func()) {
	_, release, err := g.Sandboxes.Attach(ctx, t.SandboxID())
	if err != nil {
		g.Logger.WarnContext(ctx, "the agent's sandbox is not kept", "step", "RunVerifier", "rollout", t.RolloutID,
			"attempt", t.Attempt, "kind", fault.KindOf(err), "error", err)

		return func() {}
	}

	return release
}

// prepare restores the agent's home in a fresh sandbox, fills the verifier's folders, and links their old
// places in the agent's home to them. It may run again until the verifier's first process starts.
func (g *Grader) prepare(ctx context.Context, sb *sandbox.Sandbox, job Job) error {
	err := g.restoreHome(ctx, sb, job)

	var f *failure
	if err = blame(err, "restore the workspace"); job.Regrade != "" && errors.As(err, &f) {
		// it may have been saved in a sandbox of another kind
		return verifierFailed("%s: the sandbox of the task must be that of the rollout", f.why)
	}

	if err != nil {
		return err
	}

	return g.stage(ctx, sb, job)
}

// stage prepares a sandbox whose home is restored already, or stays empty.
func (g *Grader) stage(ctx context.Context, sb *sandbox.Sandbox, job Job) error {
	if err := g.linkHome(ctx, sb, job.Target); err != nil {
		return blame(err, "prepare the workspace")
	}

	if err := g.fillVerifierHome(ctx, sb, job.Target); err != nil {
		return blameBounds(err, "prepare the verifier's folders")
	}

	return g.stageFiles(ctx, sb, job.Verifier)
}

// linkHome gives the agent's home the packages that setup left, and links to the verifier's folders. The
// agent's programs can change the links; ownPaths keeps the author's text from following them.
func (g *Grader) linkHome(ctx context.Context, sb *sandbox.Sandbox, t rollout.Target) error {
	// Unpacking a folder replaces a link or a file of its name, so an agent cannot put one there to make
	// the verifier fail.
	parents := Folders(rollout.Workdir, path.Dir(rollout.VerifierDir), path.Dir(rollout.Packages))
	if err := sb.PutTar(ctx, rollout.Home, parents); err != nil {
		return err
	}

	if err := removeAll(ctx, sb, rollout.TestsDir, rollout.VerifierDir, rollout.Packages); err != nil {
		return err
	}

	if err := g.restorePackages(ctx, sb, t, rollout.Packages); err != nil {
		return err
	}

	return sb.PutTar(ctx, rollout.Home, links(map[string]string{
		"tests": wire.VerifierTests, "logs/verifier": wire.VerifierLogs,
	}))
}

// fillVerifierHome fills the verifier's home with the packages from setup and with links for the names that
// scripts use below ~. It contains nothing of the agent. Without separate users the agent could write there
// before, so it is emptied first.
func (g *Grader) fillVerifierHome(ctx context.Context, sb *sandbox.Sandbox, t rollout.Target) error {
	sb = sb.As(wire.VerifierUser)

	info, err := sb.Info(ctx)
	if err != nil {
		return err
	}

	if !info.SeparateUsers {
		if err := removeAll(ctx, sb, wire.VerifierHome, wire.VerifierTests, wire.VerifierLogs); err != nil {
			return err
		}

		if err := sb.PutTar(ctx, wire.VerifierLogs, Folders()); err != nil {
			return err
		}
	}

	err = sb.PutTar(ctx, wire.VerifierHome, links(map[string]string{
		"workdir": rollout.Workdir, "tests": wire.VerifierTests, "logs/verifier": wire.VerifierLogs,
	}))
	if err != nil {
		return err
	}

	return g.restorePackages(ctx, sb, t, wire.VerifierHome+strings.TrimPrefix(rollout.Packages, rollout.Home))
}

// restorePackages unpacks the packages that setup installed for the user; it does nothing without setup.
func (g *Grader) restorePackages(ctx context.Context, sb *sandbox.Sandbox, t rollout.Target, folder string) error {
	return fault.Ignore(g.restore(ctx, sb, t, store.Packages, folder), fault.NotFound)
}

// stageFiles puts the script and the files of the verifier into the tests folder.
func (g *Grader) stageFiles(ctx context.Context, sb *sandbox.Sandbox, v rollout.Verifier) error {
	files, err := testFiles(v)
	if err != nil {
		return err
	}

	archive, err := tarOf(files)
	if err != nil {
		return err
	}

	sb = sb.As(wire.VerifierUser)
	if err = g.stageUploads(ctx, sb, wire.VerifierTests, v); err == nil {
		err = sb.PutTar(ctx, wire.VerifierTests, archive)
	}

	const what = "stage the verifier's files"
	if fault.Is(err, fault.OutOfDisk) || fault.Is(err, fault.OutOfMemory) {
		return blameBounds(err, what)
	}

	return fault.Wrap(fault.KindOf(err), err, what)
}

// stageUploads streams the verifier's archive in the store, if there is one, into the tests folder.
func (g *Grader) stageUploads(ctx context.Context, sb *sandbox.Sandbox, tests string, v rollout.Verifier) error {
	if v.FilesRef == nil {
		return nil
	}

	archive, err := g.Store.Reader(ctx, v.FilesRef.Key)
	if err != nil {
		return err
	}
	defer archive.Close()

	return sb.PutTar(ctx, tests, archive)
}

// testFiles are the script and the files of the verifier by their names in the tests folder, with the verifier's own
// paths.
func testFiles(v rollout.Verifier) (map[string]string, error) {
	files, err := v.TestFiles()
	if err != nil {
		return nil, err
	}

	for name, content := range files {
		files[name] = ownPaths(content)
	}

	guardTestFiles(files, append([]string{v.Script}, v.Commands...))

	if v.Script != "" {
		files[path.Base(rollout.TestScript)] = scriptText(v.Script)
	}

	return files, nil
}

func (g *Grader) restoreHome(ctx context.Context, sb *sandbox.Sandbox, job Job) error {
	if job.Verifier.Image != "" {
		return g.restoreArtifacts(ctx, sb, job)
	}

	content, err := g.Store.Reader(ctx, store.AttemptKey(job.RolloutID, job.Attempt, store.Home))
	if err != nil {
		return err
	}
	defer content.Close()

	skip, err := g.refused(ctx, sb, job)
	if err != nil {
		return err
	}

	err = sb.Restore(ctx, rollout.Home, content, skip...)

	return fault.Wrap(fault.KindOf(err), err, "restore %s", rollout.Home)
}

// handleLostSandbox handles the loss of the verifier's sandbox. If the sandbox ran out of memory, grading has reached a
// limit.
func (g *Grader) handleLostSandbox(ctx context.Context, sb *sandbox.Sandbox, record *Record, err error) error {
	if !fault.Is(err, fault.SandboxLost) {
		return err
	}

	noteCauses(ctx, sb, record)

	if err = sb.OfMemory(ctx, err); fault.Is(err, fault.OutOfMemory) {
		return blameBounds(err, "run the verifier")
	}

	return retryable(err)
}

// retryable makes the loss of the verifier's own sandbox an error that Temporal retries: the workspace is
// in the store, so grading can start again in another sandbox.
func retryable(err error) error {
	if !fault.Is(err, fault.SandboxLost) {
		return err
	}

	return fault.Wrap(fault.Unavailable, err, "verifier's sandbox")
}
