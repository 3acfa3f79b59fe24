package activities

import (
	"context"
	"errors"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// CloseSandbox destroys the attempt's sandboxes and closes its gateway route. Those that do not exist are
// no error. It tries all of them before it returns an error.
func (a *Activities) CloseSandbox(ctx context.Context, in CloseInput) error {
	ctx, over, err := a.acquireAttempt(ctx, in.Target)
	if err != nil {
		return err
	}
	defer over()

	// else an earlier try has stored the log, and a new one would replace it
	if _, err := a.o.Events.Find(in.Target); err == nil {
		a.phase(in.Target, rollout.PhaseClosing)
	}

	return errors.Join(
		a.storeEvents(ctx, in.Target),
		// first: an open route would keep dialing the destroyed sandbox
		a.o.Gateway.Close(ctx, in.SandboxID()),
		a.destroySandboxes(ctx, in),
		a.forgetNetwork(in.Target),
		a.forgetSteps(in.Target),
	)
}

func (a *Activities) destroySandboxes(ctx context.Context, in CloseInput) error {
	b, err := a.backend(in.Target)
	if err != nil {
		return err
	}

	return errors.Join(
		destroyWithServices(ctx, b, in.Target, in.SandboxID()),
		destroyWithServices(ctx, b, in.Target, in.VerifierID()),
		destroyWithServices(ctx, b, in.Target, in.ControlID()),
	)
}

// forgetSteps deletes the step log of this host.
func (a *Activities) forgetSteps(t Target) error {
	if a.o.Episodes == nil {
		return nil
	}

	return a.o.Episodes.Forget(t.SandboxID())
}
