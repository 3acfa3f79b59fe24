package activities

import (
	"context"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/grading"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// RunVerifier grades the workspace, or returns the stored grade. A verifier without a usable reward is a
// fault.VerifierFailed.
func (a *Activities) RunVerifier(ctx context.Context, in VerifyInput) (Grade, error) {
	ctx, over, err := a.acquireAttempt(ctx, in.Target)
	if err != nil {
		return Grade{}, err
	}
	defer over()

	a.phase(in.Target, rollout.PhaseVerifying)

	record, err := a.grader(in.Target).Grade(ctx, grading.Job(in))
	if err != nil {
		return Grade{}, err
	}

	if err := a.keepCauses(ctx, in.Target, rollout.PhaseVerifying, record.Causes); err != nil {
		return Grade{}, err
	}

	log := a.o.Events.Of(in.Target)
	log.Append(rollout.EventGrade, "grade", rollout.GradeEvent{
		Stamp:   log.Stamp(),
		Reward:  record.Reward,
		Grading: record.Grading,
	})

	if record.Reward == nil {
		return Grade{}, fault.New(fault.VerifierFailed, "%s", record.Error)
	}

	return Grade{Reward: *record.Reward, Rewards: record.Rewards}, nil
}
