package workflows

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/rolloutd/rolloutd/activities"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

const (
	composeTry     = time.Minute
	composeTimeout = 24 * time.Hour // a store that is down that long loses the result
)

// collect keeps the attempt's artifacts and, when the rollout ends with it, composes the result. What cannot be collected from
// a reward's attempt takes the reward with it.
func (r *run) collect(a *attempt) {
	r.finished = !a.decision.retry
	if a.place.Queue == "" {
		return // nothing was made; the result is composed without a host
	}
	r.enter(rollout.PhaseCollecting)
	in := activities.CollectInput{Target: a.target, Agent: r.spec.Agent, Proxied: a.proxied, Final: r.finished, Head: r.head(a)}
	var out activities.CollectResult
	s := step{timeout: r.spec.Limits.Collect + slack, summary: string(a.decision.outcome)}
	err := workflow.ExecuteActivity(r.onHost(r.ctx, s), r.acts.CollectArtifacts, in).Get(r.ctx, &out)
	if err == nil {
		a.result = out.Result
		return
	}
	lost := a.lost(err)
	r.log.Warn("artifacts not collected", "attempt", a.target.Attempt, "error", lost)
	r.classify(a, lost)
	r.attempts[len(r.attempts)-1] = a.record()
	if a.decision.retry && r.finished {
		r.finished, r.cause = false, r.late // another attempt follows after all, unless an abort came meanwhile
	}
}

// lost is why collecting failed. It does not replace the error of the attempt itself.
func (a *attempt) lost(err error) error {
	if isScheduleToStartTimeout(err) {
		a.hostGone = true
		return fault.New(fault.Unavailable, "host %q is gone", a.place.Host)
	}
	return asFault(err)
}

// closeSandbox destroys what the attempt made. Where it cannot, the lease ends the sandbox and the janitor tidies up.
func (r *run) closeSandbox(a *attempt) {
	if a.place.Queue == "" {
		return
	}
	r.enter(rollout.PhaseClosing)
	in := activities.CloseInput{Target: a.target}
	err := workflow.ExecuteActivity(r.onHost(r.ctx, step{timeout: closeTimeout}), r.acts.CloseSandbox, in).Get(r.ctx, nil)
	if err != nil {
		r.log.Warn("sandbox not closed", "sandbox", a.place.SandboxID, "error", asFault(err))
	}
}

// compose stores a result out of what the workflow knows and the store already holds, for an attempt that has no host to do
// it: none was ever found, or it is gone. It is a local activity because every host may be full or away.
func (r *run) compose(a *attempt) error {
	ctx := workflow.WithLocalActivityOptions(r.ctx, workflow.LocalActivityOptions{
		StartToCloseTimeout:    composeTry,
		ScheduleToCloseTimeout: composeTimeout,
		RetryPolicy:            composeRetries(),
		Summary:                string(a.decision.outcome),
	})
	in := activities.CollectInput{Target: a.target, Agent: r.spec.Agent, Proxied: a.proxied, Final: true, Head: r.head(a)}
	var out activities.CollectResult
	err := workflow.ExecuteLocalActivity(ctx, r.acts.ComposeResult, in).Get(ctx, &out)
	a.result = out.Result
	return err
}

// head is the workflow's part of the result.
func (r *run) head(a *attempt) activities.Head {
	h := activities.Head{
		TaskID: r.spec.Task.ID, GroupID: r.spec.GroupID, Owner: r.spec.Owner, Mode: r.spec.Mode,
		Outcome: a.decision.outcome, Reward: a.reward(), Error: a.decision.text, ExitCode: -1, InstallLog: a.install,
		SessionID: r.state.SessionID, Attempts: r.attempts, Phases: r.state.Phases,
		Purpose: r.spec.Model.Purpose, Sampling: r.spec.Model.Sampling, Messages: r.spec.Messages,
		StartedAt: r.state.StartedAt, EndedAt: workflow.Now(r.ctx),
	}
	if a.agent != nil {
		h.ExitCode, h.AgentRan, h.Malformed, h.Held = a.agent.ExitCode, true, a.agent.Malformed, a.agent.Held
	}
	return h
}

// composeRetries has no bound of its own: composeTimeout is the bound.
func composeRetries() *temporal.RetryPolicy {
	return &temporal.RetryPolicy{InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: time.Minute}
}
