package grading

import (
	"context"
	"errors"
	"maps"
	"path"
	"slices"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// In shared grading the tests run in the agent's own sandbox, after its processes have ended: all that the agent has
// changed is there, the folders of the system too. They run as the agent's user, who is root of the image. So the work
// may have changed every program that decides the grade, and whatever goes wrong is the submission's failure.

const (
	sharedTests = "/tests"
	sharedLogs  = "/logs/verifier"
)

// gradeShared runs the verifier in the agent's sandbox. The loss of that sandbox is the attempt's: the work is gone.
func (g *Grader) gradeShared(ctx context.Context, job Job, record *Record) error {
	if err := g.saveHome(ctx, job.Target, false, nil); err != nil {
		return blame(err, "save the workspace")
	}

	sb, release, err := g.Sandboxes.Attach(ctx, job.SandboxID())
	if err != nil {
		return blameBounds(err, "grade in the agent's sandbox")
	}
	defer release()

	if record.earlier, err = g.earlierCauses(ctx, job.Target); err != nil {
		return err
	}

	started, err := sandbox.CommandStarted(ctx, sb, firstProcess(job.Verifier))
	if err == nil && !started {
		err = g.stageShared(ctx, sb, job.Verifier)
	}

	if err == nil {
		err = g.runShared(ctx, sb, job, record)
	}

	return ofSubmission(blameBounds(sb.OfMemory(ctx, err), "run the verifier"))
}

// runShared runs the verifier with the network that the agent had.
func (g *Grader) runShared(ctx context.Context, sb *sandbox.Sandbox, job Job, record *Record) error {
	if hosts := job.Sandbox.Network.ForAgent(); len(hosts) > 0 {
		connected, offline, err := g.Network(ctx, sb, hosts)
		if err != nil {
			return err
		}
		defer offline()

		sb = connected
	}

	return g.run(ctx, sb, job, record)
}

// ofSubmission makes a verifier's failure that of the submission, which may have caused it.
func ofSubmission(err error) error {
	var f *failure
	if errors.As(err, &f) {
		return &failure{why: f.why}
	}

	return err
}

// stageShared ends the agent's processes and replaces what the agent has left where the tests and their reward go.
func (g *Grader) stageShared(ctx context.Context, sb *sandbox.Sandbox, v rollout.Verifier) error {
	if err := clearShared(ctx, sb); err != nil {
		return blame(err, "make room for the tests in the agent's sandbox, as its user, who must be root")
	}

	files, err := v.TestFiles()
	if err != nil {
		return err
	}

	archive, err := tarOf(files)
	if err != nil {
		return err
	}

	// beside a lack of room, a failure here is not the work's: the store may not answer
	if err := g.stageUploads(ctx, sb, rollout.TestsDir, v); err != nil {
		return blameBounds(err, "put the tests into the agent's sandbox")
	}

	return blameBounds(sb.PutTar(ctx, rollout.TestsDir, archive), "put the tests into the agent's sandbox")
}

// clearShared ends all processes, and makes empty folders for the tests and the reward, with links to them from where
// Harbor has them.
func clearShared(ctx context.Context, sb *sandbox.Sandbox) error {
	if err := sb.KillAll(ctx); err != nil {
		return err
	}

	if err := removeAll(ctx, sb, sharedTests, sharedLogs, rollout.TestsDir, rollout.VerifierDir); err != nil {
		return err
	}

	if err := sb.PutTar(ctx, rollout.Home, Folders(rollout.TestsDir, rollout.VerifierDir)); err != nil {
		return err
	}

	return sb.PutTar(ctx, "/", links(map[string]string{
		sharedTests[1:]: rollout.TestsDir, sharedLogs[1:]: rollout.VerifierDir,
	}))
}

// earlierCauses returns the bounds that the agent's sandbox had reached before its work was graded there.
func (g *Grader) earlierCauses(ctx context.Context, t rollout.Target) ([]rollout.ResourceCause, error) {
	all, err := ReadCauses(ctx, g.Store, t)

	return slices.DeleteFunc(all, func(c rollout.ResourceCause) bool { return c.Phase == rollout.PhaseVerifying }), err
}

// asShared is bash with these arguments as the agent's user.
func asShared(args ...string) wire.Process {
	p := sandbox.BashCommand(args...)
	maps.Copy(p.Env, map[string]string{"TESTS_DIR": sharedTests, "VERIFIER_DIR": sharedLogs})

	return p
}

// script is the process that runs the test script.
func (j Job) script() wire.Process {
	if j.Verifier.Shared() {
		return asShared(path.Join(sharedTests, path.Base(rollout.TestScript)))
	}

	return asScript()
}

// blameStart blames the work for a test script that did not start: in shared mode the agent may have removed bash.
func (j Job) blameStart(err error) error {
	const what = "start the test script"
	if j.Verifier.Shared() {
		return blame(err, what)
	}

	return blameBounds(err, what)
}

// command is the process that runs a verify command.
func (j Job) command(text string) wire.Process {
	if j.Verifier.Shared() {
		return asShared("-c", text)
	}

	return asCommand(text)
}

// rewardText returns the text of a reward file by its name; "": it was not written.
func (j Job) rewardText(ctx context.Context, sb *sandbox.Sandbox, name string, most int64) (string, error) {
	if !j.Verifier.Shared() {
		return readRewardFile(ctx, sb, path.Join(wire.VerifierLogs, name), most)
	}

	raw, err := sb.ReadFile(ctx, path.Join(sharedLogs, name), most)

	return string(raw), blame(fault.Ignore(err, fault.NotFound), "read the reward file")
}
