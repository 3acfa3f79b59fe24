package activities

import (
	"context"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/text"
)

// maxInstallLog bounds what installing may say: it travels through the workflow's history.
const maxInstallLog = 2000

// InstallOpencode makes the rollout's agent available in the sandbox, whichever agent that is; its name is what operators know.
func (a *Activities) InstallOpencode(ctx context.Context, in InstallInput) (InstallResult, error) {
	ctx, over, err := a.alone(ctx, in.Target)
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
	if installer == nil { // the workflow is of a build that asks for each agent
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
