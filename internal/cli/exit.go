package cli

import (
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Exit codes of commands that wait for a rollout. Scripts depend on them: they are never renumbered.
const (
	ExitOK = 0

	// no rollout: bad task, no server, refused
	ExitError = 1

	// --timeout ran out; the rollout continues
	ExitTimeout = 124

	// interrupted; the rollout continues
	ExitDetached = 130
)

// ExitCode is the exit code of an outcome.
func ExitCode(o rollout.Outcome) int {
	switch o {
	case rollout.Completed:
		return ExitOK
	case rollout.AgentFailed:
		return 10
	case rollout.AgentTimeout:
		return 11
	case rollout.BudgetExhausted:
		return 12
	case rollout.Aborted:
		return 20
	case rollout.SetupFailed:
		return 30
	case rollout.VerifierFailed:
		return 31
	case rollout.InfraFailed:
		return 32
	default:
		return ExitError
	}
}

// ExitCodes describes the exit codes for help texts.
const ExitCodes = `Exit codes: 0 completed; 10 agent_failed, 11 agent_timeout, 12 budget_exhausted (graded as well);
20 aborted, 30 setup_failed, 31 verifier_failed, 32 infra_failed (reward null); 1 no rollout;
124 --timeout ran out, 130 interrupted: in both cases the rollout continues.`

// JSONError is an error on the standard output of a command with --json.
type JSONError struct {
	Kind    fault.Kind `json:"kind,omitempty"`
	Message string     `json:"message"`
}

// NewJSONError returns err as --json prints it.
func NewJSONError(err error) JSONError { return JSONError{fault.KindOf(err), err.Error()} }
