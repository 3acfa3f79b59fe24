package workflows

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/rolloutd/rolloutd/activities"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// attempt is one numbered try, and what became of it.
type attempt struct {
	target   activities.Target
	place    activities.Place // zero: no sandbox was made
	hostGone bool             // its host did not take a step in time: do not wait for it so long again
	install  string           // what installing said, for people
	proxied  bool             // a gateway route was asked for
	agent    *activities.AgentResult
	turns    int // model calls that were reported
	grade    *activities.Grade

	phase    rollout.Phase // where err came up
	err      error
	decision decision
	result   rollout.Ref // of the rollout; zero until composed
	started  time.Time
	ended    time.Time
}

// attempt makes attempt n, keeps its artifacts and cleans up after it.
func (r *run) attempt(n int) *attempt {
	a := &attempt{target: activities.Target{RolloutID: r.spec.ID, Attempt: n, Backend: r.spec.Sandbox.Backend}, started: workflow.Now(r.ctx)}
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

// work goes through the steps until one fails or the rollout is to end early.
func (r *run) work(a *attempt) error {
	for _, step := range []func(*attempt) error{r.create, r.installAgent, r.openProxy, r.prepare, r.runAgent, r.verify} {
		if r.cause.set() {
			return nil
		}
		if err := step(a); err != nil {
			return err
		}
	}
	return nil
}

// classify decides the attempt's outcome; lost is why its artifacts could not be collected.
func (r *run) classify(a *attempt, lost error) {
	a.decision = decide(finding{
		cause: r.cause, phase: a.phase, err: a.err, agent: a.agent, lost: lost,
		another: a.target.Attempt < r.spec.Limits.Attempts,
	})
}

// reclassify decides the last attempt again, after a retry was cancelled.
func (r *run) reclassify(a *attempt) *attempt {
	r.classify(a, nil)
	return a
}

// reward is the grade, where the outcome may carry one.
func (a *attempt) reward() *float64 {
	if a.grade == nil || !a.decision.outcome.MayCarryReward() {
		return nil
	}
	return &a.grade.Reward
}

// record is the attempt as a Result lists it.
func (a *attempt) record() rollout.Attempt {
	return rollout.Attempt{
		Number: a.target.Attempt, SandboxID: a.place.SandboxID, Host: a.place.Host, Turns: a.turns,
		Outcome: a.decision.outcome, Error: a.decision.text, ErrorKind: string(a.decision.kind),
		StartedAt: a.started, EndedAt: a.ended,
	}
}

// failed records the phase of the error and returns it as a fault. A host that did not take the activity in time counts as gone.
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
