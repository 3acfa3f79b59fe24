package activities

import (
	"context"
	"path"
	"strconv"
	"time"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/grading"
	"github.com/rolloutd/rolloutd/internal/host"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
	"github.com/rolloutd/rolloutd/internal/sandbox/driver"
	"github.com/rolloutd/rolloutd/internal/temporalx/failure"
)

// createTimeout bounds the creation of a sandbox. Waiting for the model endpoint, or for capacity, comes before it.
const createTimeout = 2 * time.Minute

// CreateSandbox makes the attempt's sandbox on this host, or finds the one it made before. First it waits until the model endpoint
// takes another rollout, and until this host can hold a sandbox of the size asked for.
func (a *Activities) CreateSandbox(ctx context.Context, in CreateSandboxInput) (Place, error) {
	if in.Tries == 0 {
		return a.place(ctx, in)
	}
	failed := host.Failures(ctx)
	if failed >= in.Tries {
		return Place{}, failure.Final(fault.New(fault.Unavailable, "the worker went away in the last of %d tries", failed))
	}
	place, err := a.place(ctx, in)
	if failed+1 == in.Tries {
		err = failure.Final(err)
	}
	return place, err
}

func (a *Activities) place(ctx context.Context, in CreateSandboxInput) (Place, error) {
	ctx, over, err := a.alone(ctx, in.Target)
	if err != nil {
		return Place{}, err
	}
	defer over()
	b, err := a.backend(in.Target)
	if err != nil {
		return Place{}, err
	}
	admission, log := a.admission[backendName(in.Target)], a.loggerOf("CreateSandbox", in.Target)
	if err := admission.Wait(ctx, in.Upstream, in.Tries > 0, log); err != nil {
		return Place{}, err
	}
	if in.Attempt == 1 { // a rollout that has begun goes on
		if err := a.o.Store.Full(ctx); fault.Is(err, fault.Exhausted) {
			return Place{}, admission.Return(ctx, "store", err)
		} else if err != nil {
			return Place{}, err
		}
	}
	if err := b.Prepare(ctx, in.Sandbox); err != nil {
		return Place{}, err
	}
	unclaim, err := b.Capacity.Claim(ctx, in.SandboxID(), b.Resources(in.Sandbox))
	if fault.Is(err, fault.Exhausted) {
		return Place{}, admission.Return(ctx, "capacity of "+a.o.Host, err)
	}
	if err != nil {
		return Place{}, err
	}
	defer unclaim()
	started := time.Now()
	err = a.makeSandbox(ctx, b, in)
	if fault.Is(err, fault.Exhausted) { // an account whose quota is used up: this host's capacity says nothing of it
		return Place{}, admission.Return(ctx, "capacity of the backend "+backendName(in.Target), err)
	}
	if err != nil {
		return Place{}, err
	}
	a.placed(ctx, in.Target, started)
	place := Place{Created: rollout.Created{SandboxID: in.SandboxID(), Host: a.o.Host}, Queue: a.o.Queue, StartedAt: started}
	if kind, err := a.o.Agents.Get(in.Agent); err == nil { // of an agent that is not known InstallOpencode says so
		place.NoInstall, place.NoProxy = kind.Installer() == nil, kind.OnHost
	}
	return place, nil
}

// makeSandbox takes a warm sandbox, finds the attempt's own from before, or makes one, within createTimeout.
func (a *Activities) makeSandbox(ctx context.Context, b Backend, in CreateSandboxInput) error {
	ctx, cancel := context.WithTimeout(ctx, createTimeout)
	defer cancel()
	own := labels(in.Target, driver.PurposeAgent)
	if in.Agent != "" && in.Sandbox.Image == "" && len(in.Sandbox.Network.ForAgent()) == 0 { // a warm agent has no image and no proxy
		b.Warm.Take(ctx, in.SandboxID(), host.WarmAgent{Name: in.Agent, Job: jobAhead(in)}, in.Sandbox, own)
	}
	b.Warm.MakeRoom(ctx)
	sb, err := a.create(ctx, b, in.SandboxID(), in.Sandbox, own) // finds the one it took
	if err != nil {
		return err
	}
	return a.forgetEarlier(ctx, sb, in.Target)
}

// jobAhead is what is known of the agent's job before its sandbox is made.
func jobAhead(in CreateSandboxInput) agent.Job {
	return agent.Job{ObeyProject: in.ObeyProject, MaxOutput: in.MaxOutput}
}

// forgetEarlier deletes what the store holds of this attempt from before its sandbox began: of a workflow that was reset since, or
// that was terminated and forgotten before the same id was asked for again. Its grade would become the grade of this one.
// A sandbox that was found, and not made, began before all that belongs to it.
func (a *Activities) forgetEarlier(ctx context.Context, sb *sandbox.Sandbox, t Target) error {
	since, err := sb.Since(ctx)
	if err != nil {
		return err
	}
	if err := a.o.Events.Forget(t, since); err != nil {
		return err
	}
	n, err := a.o.Store.DeleteEarlier(ctx, t.RolloutID, t.Attempt, since)
	if n > 0 {
		a.loggerOf("CreateSandbox", t).WarnContext(ctx, "forgot what an earlier life of the attempt had left", "blobs", n)
	}
	return err
}

func labels(t Target, purpose string) map[string]string {
	return map[string]string{
		driver.LabelRollout: t.RolloutID, driver.LabelAttempt: strconv.Itoa(t.Attempt), driver.LabelPurpose: purpose,
	}
}

// create makes a sandbox with the folders that every process in it relies on, and our lease; or finds the one of that id.
func (a *Activities) create(ctx context.Context, b Backend, id string, s rollout.Sandbox, labels map[string]string) (*sandbox.Sandbox, error) {
	sb, err := b.Create(ctx, id, s, labels)
	if err != nil {
		return nil, err
	}
	if err := sb.Renew(ctx, a.o.Lease); err != nil {
		return nil, err
	}
	return sb, PrepareSandbox(ctx, sb)
}

// PrepareSandbox makes the folders that every process in a sandbox relies on.
func PrepareSandbox(ctx context.Context, sb *sandbox.Sandbox) error {
	return sb.PutTar(ctx, rollout.Home, grading.Folders(rollout.Workdir, path.Dir(rollout.AgentLog)))
}
