package workflows

import (
	"fmt"

	"github.com/rolloutd/rolloutd/activities"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// finding is the workflow's data about the end of an attempt.
type finding struct {
	// an abort, or the rollout's deadline
	cause cause

	// phase of err
	phase rollout.Phase

	// the error of the failed activity, as a fault
	err error

	// nil: the agent did not run, or RunAgent failed with err
	agent *activities.AgentResult

	// why the attempt's artifacts could not be collected
	lost error

	// the limits allow one more attempt
	another bool

	// the attempt began in the work of an earlier step
	later bool

	// the task has a further step, for which the grade suffices
	next bool
}

// decision is the outcome of an attempt, and whether another one follows.
type decision struct {
	outcome rollout.Outcome

	// kind of the failure; empty without one
	kind fault.Kind

	// description of the failure, for people
	text string

	// another attempt follows
	retry bool

	// the next step of the task follows
	next bool

	// the work of the steps before kept this one from beginning
	prevented bool
}

// decide classifies the end of an attempt. Several failures may coincide; the order of the cases is their
// priority: an abort, the infrastructure, the task, and last the agent, because only the agent's own
// outcome may train a model.
func decide(f finding) decision {
	switch {
	case f.cause.aborted:
		return decision{outcome: rollout.Aborted, kind: fault.Aborted, text: f.cause.reason}
	case f.cause.overdue:
		return decision{outcome: rollout.InfraFailed, kind: fault.Timeout, text: f.cause.reason}
	case f.err != nil:
		return decideError(f)
	case f.agent.Outcome == rollout.Aborted: // an operator ended the route at the gateway
		return decision{outcome: rollout.Aborted, kind: fault.Aborted, text: f.agent.Error}
	case f.lost != nil: // a reward without its trace is useless for training
		return infra(f, fault.KindOf(f.lost), "collect: "+f.lost.Error())
	}

	out := decision{outcome: f.agent.Outcome, text: f.agent.Error, next: f.next}
	if out.outcome == rollout.AgentFailed {
		out.kind = fault.AgentFailed
	}

	return out
}

// decideError classifies an attempt by the activity that failed and the kind of its error.
func decideError(f finding) decision {
	kind := fault.KindOf(f.err)
	switch {
	case f.later && kind == fault.SetupFailed && (f.phase == rollout.PhaseSetup || f.phase == rollout.PhaseAgent):
		return prevented(f)
	// the services of the task become ready before its setup, its MCP servers before the agent's instruction
	case kind == fault.SetupFailed && (f.phase == rollout.PhaseSetup || f.phase == rollout.PhaseCreating || f.phase == rollout.PhaseAgent):
		return decision{outcome: rollout.SetupFailed, kind: kind, text: f.err.Error()}
	case f.phase == rollout.PhaseVerifying && ungradable(kind):
		return decision{outcome: rollout.VerifierFailed, kind: kind, text: f.err.Error()}
	}

	d := infra(f, kind, fmt.Sprintf("%s: %s", f.phase, f.err))
	if f.later && !d.retry && preventable(f.phase, kind) {
		return prevented(f)
	}

	return d
}

// prevented is the end of a step that could not begin in what the agent left in the step before: else an agent could end a
// rollout without a reward.
func prevented(f finding) decision {
	return decision{outcome: rollout.AgentFailed, kind: fault.AgentFailed, text: f.err.Error(), prevented: true}
}

// preventable reports whether what is in the home can be the cause of an error: a file in the place of the workdir, settings
// with which the agent's program does not start, no space.
func preventable(p rollout.Phase, k fault.Kind) bool {
	switch p {
	case rollout.PhaseSetup, rollout.PhaseInstalling, rollout.PhaseAgent:
	default:
		return false
	}

	switch k {
	case fault.SetupFailed, fault.Invalid, fault.OutOfDisk, fault.OutOfMemory, fault.AgentFailed:
		return true
	default:
		return false
	}
}

// ungradable reports whether grading failed because of the workspace or the verifier itself, so that
// another attempt would fail as well.
func ungradable(k fault.Kind) bool {
	switch k {
	case fault.VerifierFailed, fault.OutOfMemory, fault.OutOfDisk, fault.Invalid:
		return true
	default:
		return false
	}
}

// infra is a failure of the infrastructure. Another attempt follows unless it would fail in the same way:
// the request is impossible, the model endpoint refuses it, or no host had capacity within the queue's
// limit. A host whose disk is full later, or an account whose quota is, does not keep another attempt from waiting.
func infra(f finding, kind fault.Kind, text string) decision {
	hopeless := kind == fault.UpstreamRefused || kind == fault.Invalid || kind == fault.Unauthorized ||
		kind == fault.Exhausted && f.phase == rollout.PhaseQueued

	return decision{outcome: rollout.InfraFailed, kind: kind, text: text, retry: f.another && !hopeless}
}
