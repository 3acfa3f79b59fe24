package cli

import (
	"fmt"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// phaseName describes a phase for a progress line.
func phaseName(p rollout.Phase) string {
	switch p {
	case rollout.PhaseQueued:
		return "waiting for a slot on a host and for the model endpoint"
	case rollout.PhaseCreating:
		return "creating the sandbox"
	case rollout.PhaseInstalling:
		return "installing the agent"
	case rollout.PhaseProxy:
		return "opening the model channel"
	case rollout.PhaseSetup:
		return "running the task's setup"
	case rollout.PhaseAgent:
		return "running the agent"
	case rollout.PhaseVerifying:
		return "grading in a fresh sandbox"
	case rollout.PhaseScoring:
		return "waiting for the score of a client"
	case rollout.PhaseCollecting:
		return "collecting results"
	case rollout.PhaseClosing:
		return "closing the sandboxes"
	case rollout.PhaseDone:
		return "done"
	default:
		return string(p)
	}
}

// count writes "1 file", "2 files".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}

	return fmt.Sprintf("%d %ss", n, noun)
}
