package activities

import (
	"cmp"
	"context"
	"errors"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/rolloutd/rolloutd/internal/delivery"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/grading"
	"github.com/rolloutd/rolloutd/internal/host"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/rollout/result"
	"github.com/rolloutd/rolloutd/internal/store"
)

// RegradeInput asks for the grade of the saved work of one attempt by a verifier of today.
type RegradeInput struct {
	VerifyInput

	// the owner of the rollout; "": all clients are one
	Owner string `json:"owner,omitempty"`

	// bounds the wait for room, from when the step was scheduled
	Queue time.Duration `json:"queue"`

	// how often the step may fail
	Tries int `json:"tries"`
}

// Regrade grades the saved work of an ended attempt, or returns the stored grade. It takes the room of a rollout on
// this host, and makes and destroys the verifier's sandboxes itself. A verifier without a usable reward is no error:
// its grade is in the store.
func (a *Activities) Regrade(ctx context.Context, in RegradeInput) error {
	return withinTries(ctx, in.Tries, func() error { return a.regrade(ctx, in) })
}

func (a *Activities) regrade(ctx context.Context, in RegradeInput) error {
	ctx, over, err := a.attempts.Acquire(ctx, in.VerifierID())
	if err != nil {
		return err
	}
	defer over()

	b, err := a.backend(in.Target)
	if err != nil {
		return err
	}

	// as in CreateSandbox
	waitsFor := func(what string, err error) error {
		if fault.Is(err, fault.Exhausted) {
			err = a.admission[backendName(in.Target)].Return(ctx, what, err)
		}

		return err
	}

	image := in.Sandbox
	if image.Image = cmp.Or(in.Verifier.Image, image.Image); in.Verifier.Image != "" {
		// none are beside it
		image.Services = nil
	}

	if err := b.Prepare(ctx, image); err != nil {
		err = unpulled(ctx, CreateSandboxInput{Sandbox: image, Tries: in.Tries}, err)
		return waitsFor("room for images on "+a.o.Host, err)
	}

	release, err := b.Capacity.Claim(ctx, host.Claim{
		ID:    in.VerifierID(),
		Owner: in.Owner,
		Size:  b.Resources(in.Sandbox),
		Until: activity.GetInfo(ctx).ScheduledTime.Add(in.Queue),
	})
	if err != nil {
		return waitsFor("capacity of "+a.o.Host, err)
	}

	defer release()

	_, err = a.regrader(in.Target).Grade(ctx, grading.Job(in.VerifyInput))
	if fault.Is(err, fault.Exhausted) {
		return waitsFor("capacity of the backend "+backendName(in.Target), err)
	}

	return errors.Join(
		err,
		destroyWithServices(ctx, b, in.Target, in.VerifierID()),
		destroyWithServices(ctx, b, in.Target, in.ControlID()),
	)
}

// regrader is the grader of a regrade, which logs no events: the rollout's log has ended.
func (a *Activities) regrader(t Target) *grading.Grader {
	g := a.grader(t)
	g.Command = nil

	return g
}

// StoreRegradeInput asks for the record of a regrade whose parts have been graded.
type StoreRegradeInput struct {
	Spec      rollout.RegradeSpec `json:"spec"`
	StartedAt time.Time           `json:"started_at"`
	EndedAt   time.Time           `json:"ended_at"`

	// why a part could not be graded
	Error string `json:"error,omitempty"`
}

// StoreRegrade writes the record of a regrade and, if that was asked for, makes its grade the rollout's. A retry writes
// the same again.
func (a *Activities) StoreRegrade(ctx context.Context, in StoreRegradeInput) (rollout.Summary, error) {
	regrader := result.Regrader{
		Store: a.o.Store, Spec: in.Spec, StartedAt: in.StartedAt, EndedAt: in.EndedAt, Failed: in.Error,
	}

	r, err := regrader.Compose(ctx)
	if err != nil {
		return rollout.Summary{}, err
	}

	if in.Spec.Apply {
		if err := a.applyRegrade(ctx, regrader, &r); err != nil {
			return rollout.Summary{}, err
		}
	}

	a.log.Info("rollout graded again", "rollout", r.RolloutID, "regrade", r.ID, "reward", rewardOf(r.Reward),
		"applied", r.Applied, "error", r.Error)

	return rollout.Summary{ID: r.RolloutID, Reward: r.Reward, Error: r.Error},
		a.o.Store.PutJSON(ctx, store.RegradeKey(r.RolloutID, r.ID), r)
}

// applyRegrade makes the grade the rollout's and notes which sinks have the earlier one.
func (a *Activities) applyRegrade(ctx context.Context, regrader result.Regrader, r *rollout.Regrade) error {
	group, err := regrader.Apply(ctx, r)
	if err != nil || group == nil {
		return err
	}

	deliveries, err := delivery.Outbox{Store: a.o.Store}.Of(ctx, delivery.GroupOf(*group))
	for _, d := range deliveries {
		if d.State == rollout.DeliveryDelivered {
			r.DeliveredTo = append(r.DeliveredTo, d.Sink)
		}
	}

	return err
}
