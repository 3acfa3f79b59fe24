package activities

import (
	"context"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/grading"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandbox"
	"github.com/rolloutd/rolloutd/internal/sandbox/driver"
	"github.com/rolloutd/rolloutd/internal/tool"
)

// RunVerifier grades the workspace, or returns the stored grade. A verifier without a usable reward is a fault.VerifierFailed.
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
	log.Append(rollout.EventGrade, "grade", rollout.GradeEvent{Stamp: log.Stamp(), Reward: record.Reward, Grading: record.Grading})
	if record.Reward == nil {
		return Grade{}, fault.New(fault.VerifierFailed, "%s", record.Error)
	}
	return Grade{Reward: *record.Reward}, nil
}

// grader grades one attempt.
func (a *Activities) grader(t Target) *grading.Grader {
	return &grading.Grader{Store: a.o.Store, Sandboxes: leased{a: a, target: t}, Logger: a.log,
		Command: func(n int, cmd string, res *rollout.CommandResult) {
			command(a.o.Events.Of(t), rollout.StageVerifier, n, cmd, res)
		},
	}
}

// leased creates and finds sandboxes for grading an attempt, and renews their leases.
type leased struct {
	a      *Activities
	target Target
}

// Attach implements grading.Sandboxes.
func (l leased) Attach(ctx context.Context, id string) (*sandbox.Sandbox, func(), error) {
	b, err := l.a.backend(l.target)
	if err != nil {
		return nil, nil, err
	}
	sb, release, err := l.a.leases.Attach(ctx, b.Backend, id)
	return sb, release, b.OfMemory(ctx, id, err)
}

// CreateVerifier implements grading.Sandboxes.
func (l leased) CreateVerifier(ctx context.Context, t rollout.Target, s rollout.Sandbox) (*sandbox.Sandbox, func(), error) {
	return l.create(ctx, t, t.VerifierID(), s)
}

// CreateControl implements grading.Sandboxes.
func (l leased) CreateControl(ctx context.Context, t rollout.Target, s rollout.Sandbox) (*sandbox.Sandbox, func(), error) {
	return l.create(ctx, t, t.ControlID(), s)
}

func (l leased) create(ctx context.Context, t rollout.Target, id string, s rollout.Sandbox) (*sandbox.Sandbox, func(), error) {
	b, err := l.a.backend(t)
	if err != nil {
		return nil, nil, err
	}
	sb, err := l.a.create(ctx, b, id, s, labels(t, driver.PurposeVerifier))
	if err != nil {
		return nil, nil, err
	}
	return sb, l.a.leases.Keep(ctx, sb), nil
}

// HoldSandbox keeps the sandbox of an ended agent open until it is cancelled, and lets the client that grades call any tool in it. It first
// stores the trace so far, so that the client can read it.
func (a *Activities) HoldSandbox(ctx context.Context, in HoldInput) error {
	ctx, over, err := a.acquireAttempt(ctx, in.Target)
	if err != nil {
		return err
	}
	defer over()
	err = a.collectTrace(ctx, CollectInput{Target: in.Target, Proxied: in.Proxied, Head: Head{Mode: in.Mode, Outcome: rollout.Completed}})
	if err != nil {
		return err
	}
	sb, release, err := a.attach(ctx, in.Target)
	if err != nil {
		return err
	}
	defer release()
	_, closeEpisode, err := a.openEpisode(ctx, sb, &AgentInput{
		Target: in.Target, Episode: &rollout.Episode{EnabledToolsets: []string{tool.All}},
	}, true)
	if err != nil {
		return err
	}
	defer closeEpisode()
	<-ctx.Done()
	return fault.Wrap(fault.Unavailable, context.Cause(ctx), "hold the sandbox")
}
