package workflows

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/rolloutd/rolloutd/activities"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// attempt is one numbered try and its result.
type attempt struct {
	target activities.Target

	// zero: no sandbox was made
	place activities.Place

	// its host did not take a step in time: later steps wait less for it
	hostGone bool

	// log of the installation, for people
	install string

	// a gateway route was requested
	proxied bool
	agent   *activities.AgentResult

	// model calls that were reported
	turns int
	grade *activities.Grade

	// in which err occurred
	phase    rollout.Phase
	err      error
	decision decision

	// of the rollout; zero until composed
	result  rollout.Ref
	usage   rollout.Usage
	started time.Time
	ended   time.Time
}

// attempt runs attempt n, collects its artifacts and cleans up.
func (r *run) attempt(n int) *attempt {
	a := &attempt{
		target:  activities.Target{RolloutID: r.spec.ID, Attempt: n, Backend: r.spec.Sandbox.Backend},
		started: workflow.Now(r.ctx),
	}
	r.current = a
	r.score = nil
	r.state.Attempt, r.state.Turns, r.state.SessionID, r.state.SandboxID, r.state.Host = n, 0, "", "", ""
	a.err = r.work(a)
	a.turns = r.state.Turns
	a.ended = workflow.Now(r.ctx)
	r.classify(a, nil)
	r.attempts = append(r.attempts, a.record())
	r.collect(a)
	r.closeSandbox(a)

	return a
}

// work runs the steps until one fails or the rollout ends early.
func (r *run) work(a *attempt) error {
	for _, step := range []func(*attempt) error{
		r.create, r.installAgent, r.openProxy, r.prepare, r.runAgent, r.verify,
	} {
		if r.cause.set() {
			return nil
		}

		if err := step(a); err != nil {
			return err
		}
	}

	return nil
}

// classify sets the attempt's decision; lost is why its artifacts could not be collected.
func (r *run) classify(a *attempt, lost error) {
	a.decision = decide(finding{
		cause: r.cause, phase: a.phase, err: a.err, agent: a.agent, lost: lost,
		another: a.target.Attempt < r.spec.Limits.Attempts,
	})
}

// reclassify re-evaluates the last attempt after a retry was canceled.
func (r *run) reclassify(a *attempt) *attempt {
	r.classify(a, nil)
	return a
}

// reward is the grade; nil if the outcome carries none.
func (a *attempt) reward() *float64 {
	if a.grade == nil || !a.decision.outcome.MayCarryReward() {
		return nil
	}

	return &a.grade.Reward
}

// record is the attempt's entry in a Result.
func (a *attempt) record() rollout.Attempt {
	return rollout.Attempt{
		Number: a.target.Attempt, SandboxID: a.place.SandboxID, Host: a.place.Host, Turns: a.turns,
		Outcome: a.decision.outcome, Error: a.decision.text, ErrorKind: string(a.decision.kind),
		StartedAt: a.started, EndedAt: a.ended,
	}
}

// failed records the phase of err and returns err as a fault. A host that did not take the activity in time
// counts as lost.
func (a *attempt) failed(phase rollout.Phase, err error) error {
	if err == nil {
		return nil
	}

	a.phase = phase
	if isScheduleToStartTimeout(err) {
		a.hostGone = true
		return fault.New(fault.Unavailable, "host %q did not take the step within %s", a.place.Host, hostReturn)
	}

	return asFault(err)
}
