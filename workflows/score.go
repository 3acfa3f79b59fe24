package workflows

import (
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/rolloutd/rolloutd/activities"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/temporalx/failure"
)

// acceptScores accepts a client's score while the rollout waits for one. The same score is accepted again,
// so that a client may retry.
func (r *run) acceptScores(ctx workflow.Context) error {
	return workflow.SetUpdateHandlerWithOptions(
		ctx,
		rollout.UpdateScore,
		func(_ workflow.Context, s rollout.Score) error {
			if r.score == nil {
				r.score = &s
			}

			return nil
		},
		workflow.UpdateHandlerOptions{
			Validator:   r.checkScore,
			Description: "Grade a rollout whose verifier is external",
		},
	)
}

func (r *run) checkScore(s rollout.Score) error {
	err := r.spec.Task.Verifier.CheckScore(s)
	switch {
	case err != nil:
	case r.score != nil && r.score.Equal(s):
	case r.score != nil && r.score.Score == s.Score:
		err = fault.New(fault.Conflict, "the rollout already has the score %g, with other rewards", r.score.Score)
	case r.score != nil:
		err = fault.New(fault.Conflict, "the rollout already has the score %g", r.score.Score)
	case r.state.Phase != rollout.PhaseScoring:
		err = fault.New(fault.Conflict, "the rollout does not wait for a score: it is in phase %s", r.state.Phase)
	}

	return failure.ToTemporal(err)
}

// awaitScore keeps the sandbox open until a client has graded the work. Without a score in time the outcome
// is verifier_failed.
func (r *run) awaitScore(a *attempt) error {
	ctx := r.beginPhase(rollout.PhaseScoring)
	bound := r.spec.Limits.Verifier
	in := activities.HoldInput{Target: a.target, Proxied: a.proxied, Mode: r.spec.Mode, Network: r.spec.Sandbox.Network}
	holding, release := workflow.WithCancel(ctx)
	held := workflow.ExecuteActivity(r.onHost(holding, step{
		timeout: bound + slack,
		summary: "at most " + bound.String(),
	}), r.acts.HoldSandbox, in)
	_, err := workflow.AwaitWithTimeout(ctx, bound, func() bool { return r.score != nil || held.IsReady() })

	scored := r.score != nil
	if held.IsReady() && !scored {
		err = held.Get(ctx, nil)
	}

	release()

	switch {
	case scored:
		a.grade = &activities.Grade{Reward: r.score.Score, Rewards: r.score.Rewards, Turns: r.score.Turns}
		return nil
	case err == nil:
		err = fault.New(fault.VerifierFailed, "no score came within %s", bound)
	case temporal.IsCanceledError(err):
		err = fault.Wrap(fault.Aborted, err, "wait for a score")
	}

	return a.failed(rollout.PhaseVerifying, err)
}
