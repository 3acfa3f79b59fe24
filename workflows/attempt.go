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

	// number of the task's step, from 0
	step int

	// number of the step's try, from 1
	try int

	// the attempt in whose work it begins, that of the step before; 0: none
	from int

	// zero: no sandbox was made
	place activities.Place

	// its host did not take a step in time: later steps wait less for it
	hostLost bool

	// log of the installation, for people
	install string

	// a gateway route was requested
	proxied bool
	agent   *activities.AgentResult

	// model calls that were reported
	turns int
	grade *activities.Grade

	// phase in which err occurred
	phase    rollout.Phase
	err      error
	decision decision

	// result of the rollout; zero until it is composed
	result  rollout.Ref
	usage   rollout.Usage
	started time.Time
	ended   time.Time
}

// attempt runs the attempt after last (nil: the first one), collects its artifacts and cleans up.
func (r *run) attempt(last *attempt) *attempt {
	a := &attempt{try: 1, started: workflow.Now(r.ctx)}
	n := 1

	if last != nil {
		n = last.target.Attempt + 1
		a.step, a.try, a.from = last.step, last.try+1, last.from
	}

	if last != nil && last.decision.next {
		r.ran = append(r.ran, r.stepResult(last))
		r.turns += last.turns
		a.step, a.try, a.from = last.step+1, 1, last.target.Attempt
	}

	a.target = activities.Target{
		RolloutID: r.spec.ID, Attempt: n, Backend: r.spec.Sandbox.Backend,
		Services: r.spec.Sandbox.ServiceNames(),
	}
	r.current = a
	r.score = nil
	r.state.Attempt, r.state.Turns, r.state.SessionID, r.state.SandboxID, r.state.Host = n, 0, "", "", ""
	r.state.Step = r.stepName(a)
	a.err = r.work(a)
	a.turns = r.state.Turns
	a.ended = workflow.Now(r.ctx)
	r.classify(a, nil)
	r.attempts = append(r.attempts, r.record(a))
	r.collect(a)
	r.closeSandbox(a)

	return a
}

// work runs the steps until one fails or the rollout ends early.
func (r *run) work(a *attempt) error {
	firstSteps := []func(*attempt) error{r.create, r.installAgent, r.openProxy, r.prepare, r.runAgent, r.verify}
	// in an attempt that goes on from another, the home is restored before the agent is installed in it
	laterSteps := []func(*attempt) error{r.create, r.prepare, r.installAgent, r.openProxy, r.runAgent, r.verify}

	steps := firstSteps
	if a.from > 0 {
		steps = laterSteps
	}

	for _, step := range steps {
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
		another: a.try < r.spec.Limits.Attempts && !r.endsWithoutRoom(a, lost), later: a.from > 0,
		next: r.nextFollows(a),
	})
}

// endsWithoutRoom reports whether no attempt follows one whose host had no room left. So it was in runs of an earlier
// build.
func (r *run) endsWithoutRoom(a *attempt, lost error) bool {
	full := fault.Is(a.err, fault.Exhausted) || fault.Is(lost, fault.Exhausted)
	if !full || a.phase == rollout.PhaseQueued {
		return false
	}

	return workflow.GetVersion(r.ctx, "retry-without-room", workflow.DefaultVersion, 1) == workflow.DefaultVersion
}

// reclassify re-evaluates the last attempt after a retry was canceled.
func (r *run) reclassify(a *attempt) *attempt {
	r.classify(a, nil)
	return a
}

// reward is the grade; nil if the outcome carries none. A later step that the agent kept from beginning earns 0.
func (a *attempt) reward() *float64 {
	switch {
	case !a.decision.outcome.MayCarryReward():
		return nil
	case a.decision.prevented:
		return new(float64)
	case a.grade == nil:
		return nil
	default:
		return &a.grade.Reward
	}
}

// record is the attempt's entry in a Result.
func (r *run) record(a *attempt) rollout.Attempt {
	record := rollout.Attempt{
		Number: a.target.Attempt, Step: r.stepName(a), SandboxID: a.place.SandboxID, Host: a.place.Host, Turns: a.turns,
		Outcome: a.decision.outcome, Error: a.decision.text, ErrorKind: string(a.decision.kind),
		StartedAt: a.started, EndedAt: a.ended,
	}
	if a.agent != nil && record.Outcome == rollout.VerifierFailed {
		record.AgentOutcome = a.agent.Outcome
	}

	return record
}

// failed records the phase of err and returns err as a fault. A host that did not take the activity in time
// counts as lost.
func (a *attempt) failed(phase rollout.Phase, err error) error {
	if err == nil {
		return nil
	}

	a.phase = phase
	if isScheduleToStartTimeout(err) {
		a.hostLost = true
		return fault.New(fault.Unavailable, "host %q did not take the step within %s", a.place.Host, hostReturn)
	}

	return asFault(err)
}
