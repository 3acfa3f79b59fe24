package access

import (
	"context"
	"iter"

	"github.com/rolloutd/rolloutd/envserver/internal/produce"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/producer"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Producers is the edge's interface of the engine that runs producers.
type Producers interface {
	produce.Engine
	// ProducerOwner is the owner of a producer; fault.NotFound for an unknown id.
	ProducerOwner(ctx context.Context, id string) (string, error)
	// Producers lists producers without their groups and counts: those that run first, then by their end, latest first.
	Producers(ctx context.Context, f rollout.Filter) (producer.Page, error)
	// ChangeProducer pauses, resumes, stops or bounds a producer; false when it had ended already.
	ChangeProducer(ctx context.Context, id string, change producer.Change) (bool, error)
	// AbortProducer ends a producer and its groups; false when it had ended already.
	AbortProducer(ctx context.Context, id, reason string) (bool, error)
}

// NewOwnedProducers limits each caller to the producers that its token started; operators see all.
func NewOwnedProducers(all Producers) Producers { return ownedProducers{all} }

type ownedProducers struct{ all Producers }

// StoreTasks refuses a task whose sandbox is larger than the caller's token may ask for.
func (o ownedProducers) StoreTasks(ctx context.Context, tasks iter.Seq2[rollout.Spec, error]) (rollout.SetRef, error) {
	caller := CallerOf(ctx)

	return o.all.StoreTasks(ctx, func(yield func(rollout.Spec, error) bool) {
		for spec, err := range tasks {
			if spec.Owner = caller.Name; err == nil {
				err = spec.Sandbox.CheckMax(caller.MaxSandbox)
			}

			if !yield(spec, err) {
				return
			}
		}
	})
}

func (o ownedProducers) StartProducer(ctx context.Context, p producer.Spec) (producer.State, error) {
	caller := CallerOf(ctx)
	p.Owner = caller.Name

	state, err := o.all.StartProducer(ctx, p)
	if err == nil && !caller.may(state.Owner) {
		return producer.State{}, fault.New(fault.Conflict, "producer_id: %q is taken: choose another", p.ID)
	}

	return state, err
}

func (o ownedProducers) check(ctx context.Context, id string) error {
	return checkOwner(ctx, "producer", id, o.all.ProducerOwner)
}

func (o ownedProducers) Producer(ctx context.Context, id string) (producer.State, error) {
	if err := o.check(ctx, id); err != nil {
		return producer.State{}, err
	}

	return o.all.Producer(ctx, id)
}

func (o ownedProducers) ProducerOwner(ctx context.Context, id string) (string, error) {
	if err := o.check(ctx, id); err != nil {
		return "", err
	}

	return o.all.ProducerOwner(ctx, id)
}

func (o ownedProducers) ChangeProducer(ctx context.Context, id string, change producer.Change) (bool, error) {
	if err := o.check(ctx, id); err != nil {
		return false, err
	}

	return o.all.ChangeProducer(ctx, id, change)
}

func (o ownedProducers) AbortProducer(ctx context.Context, id, reason string) (bool, error) {
	if err := o.check(ctx, id); err != nil {
		return false, err
	}

	return o.all.AbortProducer(ctx, id, reason)
}

// Producers lists all producers to operators, and to others their own.
func (o ownedProducers) Producers(ctx context.Context, f rollout.Filter) (producer.Page, error) {
	return o.all.Producers(ctx, visible(ctx, f))
}
