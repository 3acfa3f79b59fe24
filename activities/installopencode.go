package activities

import (
	"context"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/text"
)

// maxInstallLog bounds the log of an installation, which goes into the workflow's history, in characters.
const maxInstallLog = 2000

// InstallOpencode makes the rollout's agent, any agent, available in the sandbox. The name is kept for
// operators and histories.
func (a *Activities) InstallOpencode(ctx context.Context, in InstallInput) (InstallResult, error) {
	ctx, over, err := a.acquireAttempt(ctx, in.Target)
	if err != nil {
		return InstallResult{}, err
	}
	defer over()

	a.phase(in.Target, rollout.PhaseInstalling)

	kind, err := a.o.Agents.Get(in.Agent)
	if err != nil {
		return InstallResult{}, err
	}

	installer := kind.Installer()
	// the workflow is from a build that ignores NoInstall
	if installer == nil {
		return InstallResult{Log: in.Agent + " needs no installation"}, nil
	}

	sb, release, err := a.attach(ctx, in.Target)
	if err != nil {
		return InstallResult{}, err
	}
	defer release()

	log, err := installer.Install(ctx, a.env(sb, in.Target))
	if err != nil {
		return InstallResult{}, fault.Wrap(fault.KindOf(err), err, "install %s", in.Agent)
	}

	return InstallResult{Log: text.Tail(log, maxInstallLog)}, nil
}
