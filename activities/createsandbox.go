package activities

import (
	"context"
	"path"
	"strconv"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/grading"
	"github.com/rolloutd/rolloutd/internal/host"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
	"github.com/rolloutd/rolloutd/internal/sandbox/driver"
	"github.com/rolloutd/rolloutd/internal/temporalx/failure"
)

// createTimeout bounds the making of a sandbox, of which waiting for the model endpoint is no part.
const createTimeout = 2 * time.Minute

// CreateSandbox makes the attempt's sandbox on this host, or finds the one it made before. First it waits until the model
// endpoint can bear another rollout: an agent that runs would lose its time to the wait, and hold a sandbox for it.
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
	if b := in.Sandbox.Backend; b != "" && b != a.o.BackendName {
		return Place{}, fault.Field("sandbox.backend", "this deployment has %q, not %q", a.o.BackendName, b)
	}
	log := a.loggerOf("CreateSandbox", in.Target)
	if err := a.admission.Wait(ctx, in.Upstream, in.Tries > 0, log); err != nil {
		return Place{}, err
	}
	started := time.Now()
	ctx, cancel := context.WithTimeout(ctx, createTimeout)
	defer cancel()
	sb, err := a.create(ctx, in.SandboxID(), in.Sandbox, labels(in.Target, driver.PurposeAgent))
	if err == nil {
		err = a.forgetEarlier(ctx, sb, in.Target)
	}
	if err != nil {
		return Place{}, err
	}
	return Place{SandboxID: in.SandboxID(), Host: a.o.Host, Queue: a.o.Queue, StartedAt: started}, nil
}

// forgetEarlier deletes what the store holds of this attempt from before its sandbox began: of a workflow that was reset since, or
// that was terminated and forgotten before the same id was asked for again. Its verdict would be given to the work of this one.
// A sandbox that was found, and not made, began before all that belongs to it.
func (a *Activities) forgetEarlier(ctx context.Context, sb *sandbox.Sandbox, t Target) error {
	info, err := sb.Info(ctx)
	if err != nil {
		return err
	}
	n, err := a.o.Store.DeleteEarlier(ctx, t.RolloutID, t.Attempt, info.StartedAt)
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

// create makes a sandbox with the folders that every process in it relies on, and our lease.
func (a *Activities) create(ctx context.Context, id string, s rollout.Sandbox, labels map[string]string) (*sandbox.Sandbox, error) {
	sb, err := a.o.Backend.Create(ctx, id, s, labels)
	if err != nil {
		return nil, err
	}
	if err := sb.Renew(ctx, a.o.Lease); err != nil {
		return nil, err
	}
	return sb, sb.PutTar(ctx, rollout.Home, grading.Folders(rollout.Workdir, path.Dir(rollout.AgentLog)))
}
