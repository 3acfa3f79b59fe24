package workflows

import (
	"fmt"

	"github.com/rolloutd/rolloutd/activities"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// finding is all that is known about how an attempt ended.
type finding struct {
	cause   cause                   // somebody, or the rollout's deadline, ended it
	phase   rollout.Phase           // where err came up
	err     error                   // what a step failed of, as a fault
	agent   *activities.AgentResult // nil: the agent's work was not reached, or broke off with err
	lost    error                   // why the evidence could not be collected
	another bool                    // the limits allow one more attempt
}

// ruling is what a finding means.
type ruling struct {
	outcome rollout.Outcome
	kind    fault.Kind // of what went wrong; empty where nothing did
	text    string     // the same, for people
	retry   bool       // another attempt follows
}

// rule decides what an attempt's end means. Several things may have gone wrong at once; the order here is their priority:
// what was wished for, then what the infrastructure did, then what the task did, and the agent's own doing last, because only
// that may train a model.
func rule(f finding) ruling {
	switch {
	case f.cause.aborted:
		return ruling{outcome: rollout.Aborted, kind: fault.Aborted, text: f.cause.reason}
	case f.cause.overdue:
		return ruling{outcome: rollout.InfraFailed, kind: fault.Timeout, text: f.cause.reason}
	case f.err != nil:
		return ruleError(f)
	case f.agent.Outcome == rollout.Aborted: // the route was ended past us, by an operator of the gateway
		return ruling{outcome: rollout.Aborted, kind: fault.Aborted, text: f.agent.Error}
	case f.lost != nil: // a reward without its trace trains nothing
		return infra(f, fault.KindOf(f.lost), "collect: "+f.lost.Error())
	}
	out := ruling{outcome: f.agent.Outcome, text: f.agent.Error}
	if out.outcome == rollout.AgentFailed {
		out.kind = fault.AgentFailed
	}
	return out
}

// ruleError decides by the step that failed and the kind of its error.
func ruleError(f finding) ruling {
	kind := fault.KindOf(f.err)
	switch {
	case f.phase == rollout.PhaseSetup && kind == fault.SetupFailed:
		return ruling{outcome: rollout.SetupFailed, kind: kind, text: f.err.Error()}
	case f.phase == rollout.PhaseVerifying && ungradable(kind):
		return ruling{outcome: rollout.VerifierFailed, kind: kind, text: f.err.Error()}
	}
	return infra(f, kind, fmt.Sprintf("%s: %s", f.phase, f.err))
}

// ungradable says that the workspace, as the agent left it, or the verifier itself keeps it from being graded; grading another
// attempt would not change that it was so.
func ungradable(k fault.Kind) bool {
	switch k {
	case fault.VerifierFailed, fault.OutOfMemory, fault.OutOfDisk, fault.Invalid:
		return true
	default:
		return false
	}
}

// infra is a loss that another attempt may mend, unless it would meet the same again: what was asked is impossible, or the
// model endpoint refuses us, or there was no room for as long as the caller would wait.
func infra(f finding, kind fault.Kind, text string) ruling {
	hopeless := kind == fault.UpstreamRefused || kind == fault.Invalid || kind == fault.Unauthorized || kind == fault.Exhausted
	return ruling{outcome: rollout.InfraFailed, kind: kind, text: text, retry: f.another && !hopeless}
}
