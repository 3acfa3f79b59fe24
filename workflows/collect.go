package workflows

import (
	"slices"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/rolloutd/rolloutd/activities"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

const (
	composeTry = time.Minute

	// if the store is down for longer, the result is lost
	composeTimeout = 24 * time.Hour
)

// collect saves the attempt's artifacts and, if the rollout ends with it, composes the result. An attempt
// whose artifacts cannot be collected has no reward.
func (r *run) collect(a *attempt) {
	r.finished = !a.decision.retry && !a.decision.next
	if a.place.Queue == "" {
		// no sandbox was created; the result is composed without a host
		return
	}

	r.enter(rollout.PhaseCollecting)
	in := activities.CollectInput{
		Target:   a.target,
		Agent:    r.spec.Agent,
		Proxied:  a.proxied,
		Final:    r.finished,
		Head:     r.head(a),
		Endpoint: r.spec.Model.Label(),
		TaskSet:  r.spec.Task.Set,

		From:      a.from,
		Continues: a.decision.next,
	}

	var out activities.CollectResult

	s := step{timeout: r.spec.Limits.Collect + slack, summary: string(a.decision.outcome)}

	err := workflow.ExecuteActivity(r.onHost(r.ctx, s), r.acts.CollectArtifacts, in).Get(r.ctx, &out)
	if err == nil {
		a.result, a.usage = out.Result, out.Usage
		return
	}

	lost := a.collectError(err)
	r.log.Warn("artifacts not collected", "attempt", a.target.Attempt, "error", lost)
	r.classify(a, lost)

	r.attempts[len(r.attempts)-1] = r.record(a)
	if a.decision.retry && r.finished {
		// another attempt follows, unless an abort arrived meanwhile
		r.finished, r.cause = false, r.late
	}
}

// collectError returns why collecting failed. It does not replace the error of the attempt itself.
func (a *attempt) collectError(err error) error {
	if isScheduleToStartTimeout(err) {
		a.hostLost = true
		return fault.New(fault.Unavailable, "host %q is gone", a.place.Host)
	}

	return asFault(err)
}

// closeSandbox destroys the attempt's sandboxes and route. If it fails, the lease ends the sandbox and the
// janitor removes the rest.
func (r *run) closeSandbox(a *attempt) {
	if a.place.Queue == "" {
		return
	}

	r.enter(rollout.PhaseClosing)

	in := activities.CloseInput{Target: a.target}

	err := workflow.ExecuteActivity(r.onHost(r.ctx, step{timeout: closeTimeout}), r.acts.CloseSandbox, in).
		Get(r.ctx, nil)
	if err != nil {
		r.log.Warn("sandbox not closed", "sandbox", a.place.SandboxID, "error", asFault(err))
	}
}

// compose stores a result from the workflow's data and the store, for an attempt that has no host: none was
// found, or it was lost. It is a local activity because every host may be full or down.
func (r *run) compose(a *attempt) error {
	ctx := workflow.WithLocalActivityOptions(r.ctx, workflow.LocalActivityOptions{
		StartToCloseTimeout:    composeTry,
		ScheduleToCloseTimeout: composeTimeout,
		RetryPolicy:            composeRetries(),
		Summary:                string(a.decision.outcome),
	})
	in := activities.CollectInput{
		Target:   a.target,
		Agent:    r.spec.Agent,
		Proxied:  a.proxied,
		Final:    true,
		From:     a.from,
		Head:     r.head(a),
		Endpoint: r.spec.Model.Label(),
		TaskSet:  r.spec.Task.Set,
	}

	var out activities.CollectResult

	err := workflow.ExecuteLocalActivity(ctx, r.acts.ComposeResult, in).Get(ctx, &out)
	a.result, a.usage = out.Result, out.Usage

	return err
}

// head is the workflow's part of the result.
func (r *run) head(a *attempt) activities.Head {
	h := activities.Head{
		TaskID: r.spec.Task.ID, GroupID: r.spec.GroupID, Owner: r.spec.Owner, Mode: r.spec.Mode,
		Agent: r.spec.Agent, Model: r.spec.Model.Name, Endpoint: r.spec.Model.Upstream(),
		Outcome: a.decision.outcome, Reward: r.reward(a), Error: a.decision.text, ExitCode: -1, InstallLog: a.install,
		SessionID: r.state.SessionID, Attempts: r.attempts, Phases: r.state.Phases,
		Purpose: r.spec.Model.Purpose, Sampling: r.spec.Model.Sampling, Messages: r.spec.Messages,
		StartedAt: r.state.StartedAt, EndedAt: workflow.Now(r.ctx),
	}
	if len(r.spec.Task.Steps) > 0 {
		h.Steps = append(slices.Clone(r.ran), r.stepResult(a))
		h.FinalReward = r.spec.Task.RewardStrategy == rollout.RewardFinal
	}

	if r.spec.Task.Verifier.External && a.grade != nil && h.Reward != nil {
		h.Rewards, h.TurnRewards = a.grade.Rewards, a.grade.Turns
	}

	if a.agent != nil {
		h.ExitCode, h.AgentRan, h.Malformed, h.Held = a.agent.ExitCode, true, a.agent.Malformed, a.agent.Held
	}

	return h
}

// composeRetries is a retry policy without a limit, since composeTimeout bounds the retries.
func composeRetries() *temporal.RetryPolicy {
	return &temporal.RetryPolicy{MaximumInterval: time.Minute}
}
