package activities

import (
	"context"
	"path"
	"strconv"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/grading"
	"github.com/rolloutd/rolloutd/internal/host"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
	"github.com/rolloutd/rolloutd/internal/temporalx/failure"
)

// createTimeout bounds the creation of a sandbox, after the waits for the model endpoint and for capacity.
const createTimeout = 2 * time.Minute

// CreateSandbox creates the attempt's sandbox on this host, or finds the existing one. It first waits until
// the model endpoint can take another rollout and this host has capacity for the sandbox.
func (a *Activities) CreateSandbox(ctx context.Context, in CreateSandboxInput) (Place, error) {
	if in.Tries == 0 {
		return a.awaitPlace(ctx, in)
	}

	var place Place

	err := withinTries(ctx, in.Tries, func() (err error) {
		place, err = a.awaitPlace(ctx, in)
		return err
	})

	return place, err
}

// withinTries runs a step whose failure in the last of its tries is final, as is the loss of the worker in that try.
func withinTries(ctx context.Context, tries int, step func() error) error {
	failed := host.Failures(ctx)
	if failed >= tries {
		return failure.Final(fault.New(fault.Unavailable, "the worker was lost in the last of %d tries", failed))
	}

	err := step()
	if failed+1 == tries {
		err = failure.Final(err)
	}

	return err
}

// awaitPlace creates the sandbox when the model endpoint takes another rollout and this host has room. Without room in
// time the activity ends, and Temporal runs it again when there may be some.
func (a *Activities) awaitPlace(ctx context.Context, in CreateSandboxInput) (Place, error) {
	ctx, release, err := a.acquireAttempt(ctx, in.Target)
	if err != nil {
		return Place{}, err
	}
	defer release()

	b, err := a.backend(in.Target)
	if err != nil {
		return Place{}, err
	}

	waiting, until, done := queueContext(ctx, in)
	defer done()

	admission := a.admission[backendName(in.Target)]
	if err := admission.Wait(waiting, in.Upstream, in.Tries > 0, a.loggerOf("CreateSandbox", in.Target)); err != nil {
		return Place{}, err
	}

	place, full, err := a.place(ctx, b, in, until)
	if fault.Is(err, fault.Exhausted) {
		err = admission.Return(waiting, full, err)
	}

	return place, err
}

// place claims room on this host, until then at the latest, and creates the sandbox and its services. If the error is a
// lack of room, full names what has none.
func (a *Activities) place(
	ctx context.Context,
	b Backend,
	in CreateSandboxInput,
	until time.Time,
) (_ Place, full string, err error) {
	// a full store does not stop a rollout that has begun
	if in.Attempt == 1 {
		if err := a.o.Store.Full(ctx); err != nil {
			return Place{}, "store", err
		}
	}

	if err := b.Prepare(ctx, in.Sandbox); err != nil {
		return Place{}, "room for images on " + a.o.Host, unpulled(ctx, in, err)
	}

	unclaim, err := b.Capacity.Claim(ctx, host.Claim{
		ID:    in.SandboxID(),
		Owner: in.Owner,
		Size:  b.Resources(in.Sandbox),
		Until: until,
	})
	if err != nil {
		return Place{}, "capacity of " + a.o.Host, err
	}
	defer unclaim()

	started := time.Now()

	// the quota of an account or the host's disk, which its capacity does not include
	full = "capacity of the backend " + backendName(in.Target)

	sb, err := a.makeSandbox(ctx, b, in)
	if err != nil {
		return Place{}, full, err
	}

	if err := a.startServices(ctx, b, sb, in.Sandbox, in.Target, driver.PurposeAgent); err != nil {
		// the workflow does not close what it does not know
		return Place{}, full, a.endSandbox(ctx, b, in.Target, sb.ID(), err)
	}

	a.logPlacement(ctx, in.Target, started)

	place := Place{
		Created:   rollout.Created{SandboxID: in.SandboxID(), Host: a.o.Host},
		Queue:     a.o.Queue,
		StartedAt: started,
	}
	// InstallOpencode reports an unknown agent
	if kind, err := a.o.Agents.Get(in.Agent); err == nil {
		place.NoInstall, place.NoProxy = kind.Installer() == nil, kind.NoChannel()
	}

	return place, "", nil
}

// imageTries is how often an image is pulled from a registry that does not answer, over a minute and the
// time that each pull takes.
const imageTries = 8

// unpulled is the error of the preparation of a sandbox. After imageTries it is final and a fault.Invalid:
// another attempt would pull from the same registry.
func unpulled(ctx context.Context, in CreateSandboxInput, err error) error {
	if in.Tries == 0 || in.Sandbox.Image == "" || !fault.Is(err, fault.Unavailable) || ctx.Err() != nil {
		return err
	}

	if tries := host.Failures(ctx) + 1; tries >= min(in.Tries, imageTries) {
		return fault.Wrap(fault.Invalid, err, "the images of the task were not pulled in %d tries", tries)
	}

	return err
}

// queueContext returns the context of the step's waits, whose deadline leaves time for the creation of the
// sandbox, and the end of the waits (zero: none), which is limits.queue_s after the step was scheduled.
func queueContext(
	ctx context.Context,
	in CreateSandboxInput,
) (waiting context.Context, until time.Time, done context.CancelFunc) {
	if in.Queue == 0 {
		return ctx, time.Time{}, func() {}
	}

	until = activity.GetInfo(ctx).ScheduledTime.Add(in.Queue)
	waiting, done = context.WithDeadline(ctx, until.Add(createTimeout))

	return waiting, until, done
}

// makeSandbox takes a warm sandbox, finds the attempt's existing one, or creates one, within createTimeout.
func (a *Activities) makeSandbox(ctx context.Context, b Backend, in CreateSandboxInput) (*sandbox.Sandbox, error) {
	ctx, cancel := context.WithTimeout(ctx, createTimeout)
	defer cancel()

	own := labels(in.Target, driver.PurposeAgent)
	if in.Owner != "" {
		own[driver.LabelOwner] = in.Owner
	}

	if in.Agent != "" && in.From == 0 && takesWarm(in.Sandbox) {
		b.Warm.Take(ctx, in.SandboxID(), host.WarmAgent{Name: in.Agent, Job: jobBeforeSandbox(in)}, in.Sandbox, own)
	}

	b.Warm.MakeRoom(ctx)
	// finds a warm sandbox that was taken
	sb, err := a.create(ctx, b, in.SandboxID(), in.Sandbox, own)
	if err != nil {
		return nil, err
	}

	return sb, a.forgetEarlier(ctx, sb, in.Target)
}

// takesWarm reports whether a warm agent fits the sandbox: it has no image, no variables, MCP servers and skills of the
// task, no proxy and no earlier work.
func takesWarm(s rollout.Sandbox) bool {
	return s.Image == "" && len(s.Env) == 0 && len(s.MCPServers) == 0 && s.SkillsDir == "" && len(s.Network.ForAgent()) == 0
}

// jobBeforeSandbox is the part of the agent's job that is known before its sandbox exists.
func jobBeforeSandbox(in CreateSandboxInput) agent.Job {
	return agent.Job{ObeyProject: in.ObeyProject, MaxOutput: in.MaxOutput}
}

// forgetEarlier deletes the attempt's blobs and logs that are older than its sandbox. They belong to a
// workflow that was reset, or terminated and deleted before its id was submitted again; their grade must
// not become this attempt's. A sandbox that was found is older than all blobs of its attempt.
func (a *Activities) forgetEarlier(ctx context.Context, sb *sandbox.Sandbox, t Target) error {
	since, err := sb.Since(ctx)
	if err != nil {
		return err
	}

	if err := a.o.Events.Forget(t, since); err != nil {
		return err
	}

	if a.o.Episodes != nil {
		if err := a.o.Episodes.ForgetEarlier(t.SandboxID(), since); err != nil {
			return err
		}
	}

	if a.o.Network != nil {
		if err := a.o.Network.ForgetEarlier(t.SandboxID(), since); err != nil {
			return err
		}
	}

	n, err := a.o.Store.DeleteEarlier(ctx, t.RolloutID, t.Attempt, since)
	if n > 0 {
		log := a.loggerOf("CreateSandbox", t)
		log.WarnContext(ctx, "deleted blobs of an earlier workflow with the same attempt", "blobs", n)
	}

	return err
}

func labels(t Target, purpose string) map[string]string {
	return map[string]string{
		driver.LabelRollout: t.Label(), driver.LabelAttempt: strconv.Itoa(t.Attempt), driver.LabelPurpose: purpose,
	}
}

// create creates a sandbox, or finds the one of that id, sets its lease, and makes the folders that every
// process in it needs.
func (a *Activities) create(
	ctx context.Context,
	b Backend,
	id string,
	s rollout.Sandbox,
	labels map[string]string,
) (*sandbox.Sandbox, error) {
	sb, err := b.Create(ctx, id, s, labels)
	if err != nil {
		return nil, err
	}

	if err := sb.Renew(ctx, a.o.Lease); err != nil {
		return nil, err
	}

	return sb, PrepareSandbox(ctx, sb)
}

// PrepareSandbox makes the folders that every process in a sandbox needs.
func PrepareSandbox(ctx context.Context, sb *sandbox.Sandbox) error {
	return sb.PutTar(ctx, rollout.Home, grading.Folders(rollout.Workdir, path.Dir(rollout.AgentLog)))
}
