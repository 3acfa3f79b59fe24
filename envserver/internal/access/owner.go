package access

import (
	"context"
	"io"

	"github.com/rolloutd/rolloutd/envserver/internal/tools"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/trajectory/traceindex"
)

// Rollouts is the edge's interface of the engine that runs rollouts.
type Rollouts interface {
	tools.Rollouts
	// Owner is the Spec.Owner of a rollout; fault.NotFound for an unknown id.
	Owner(ctx context.Context, id string) (string, error)
	// List lists rollouts a page at a time: first those that run, then the others by their end, latest first.
	List(ctx context.Context, f rollout.Filter) (rollout.Page, error)
	// Counts counts all rollouts of a list.
	Counts(ctx context.Context, f rollout.Filter) (rollout.Counts, error)
	// Spec is what a rollout was started with; fault.NotFound when nobody has it any more.
	Spec(ctx context.Context, id string) (rollout.Spec, error)
	// TaskFiles are the files of its task by their absolute paths; nil: it has none, or they are not a few texts.
	TaskFiles(ctx context.Context, id string) (map[string]string, error)
	// Index calls read with the index of a rollout's trace; fault.NotFound when there is none. read may be called
	// again, and must not use the index afterwards.
	Index(ctx context.Context, id string, read func(*traceindex.Index) error) error
}

// NewOwned limits each caller to its own rollouts. groups and producers, whose rollouts have derived ids, may be nil.
func NewOwned(all Rollouts, groups Groups, producers Producers) Rollouts {
	return owned{all, ids{all, groups, producers}}
}

// owned shows each caller the rollouts that its token started, and operators all rollouts. For other
// callers a rollout does not exist. The context of each call has the caller; see CallerOf.
type owned struct {
	all Rollouts
	ids ids
}

// Start starts the rollout for the caller, within the limits of its token. The id of another caller's
// rollout is a fault.Conflict that discloses nothing about that rollout.
func (o owned) Start(ctx context.Context, spec rollout.Spec) (rollout.State, error) {
	caller := CallerOf(ctx)
	if err := spec.Sandbox.CheckMax(caller.MaxSandbox); err != nil {
		return rollout.State{}, err
	}

	if err := o.ids.checkRollout(ctx, spec.ID); err != nil {
		return rollout.State{}, err
	}

	spec.Owner = caller.Name

	state, err := o.all.Start(ctx, spec)
	if err == nil && !caller.may(state.Owner) {
		return rollout.State{}, fault.New(fault.Conflict, "rollout_id: %q is taken: choose another", spec.ID)
	}

	return state, err
}

func (o owned) check(ctx context.Context, id string) error {
	return checkOwner(ctx, "rollout", id, o.all.Owner)
}

// checkOwner returns the same fault.NotFound for what another caller has started as for what does not exist.
func checkOwner(ctx context.Context, noun, id string, ownerOf func(context.Context, string) (string, error)) error {
	missing := fault.New(fault.NotFound, "no %s %q", noun, id)
	if rollout.CheckID(id) != nil {
		return missing
	}

	caller := CallerOf(ctx)
	if caller.Scope == ScopeOperator {
		return nil
	}

	owner, err := ownerOf(ctx, id)
	if fault.Is(err, fault.NotFound) || err == nil && !caller.may(owner) {
		return missing
	}

	return err
}

func (o owned) State(ctx context.Context, id string) (rollout.State, error) {
	if err := o.check(ctx, id); err != nil {
		return rollout.State{}, err
	}

	return o.all.State(ctx, id)
}

func (o owned) Spec(ctx context.Context, id string) (rollout.Spec, error) {
	if err := o.check(ctx, id); err != nil {
		return rollout.Spec{}, err
	}

	return o.all.Spec(ctx, id)
}

func (o owned) TaskFiles(ctx context.Context, id string) (map[string]string, error) {
	if err := o.check(ctx, id); err != nil {
		return nil, err
	}

	return o.all.TaskFiles(ctx, id)
}

func (o owned) Wait(ctx context.Context, id string) (rollout.Result, error) {
	if err := o.check(ctx, id); err != nil {
		return rollout.Result{}, err
	}

	return o.all.Wait(ctx, id)
}

func (o owned) Messages(ctx context.Context, id string) (rollout.Transcript, error) {
	if err := o.check(ctx, id); err != nil {
		return rollout.Transcript{}, err
	}

	return o.all.Messages(ctx, id)
}

func (o owned) Events(ctx context.Context, id string, after int64, emit func([]rollout.Event) error) error {
	if err := o.check(ctx, id); err != nil {
		return err
	}

	return o.all.Events(ctx, id, after, emit)
}

func (o owned) Abort(ctx context.Context, id, reason string) (bool, error) {
	if err := o.check(ctx, id); err != nil {
		return false, err
	}

	return o.all.Abort(ctx, id, reason)
}

func (o owned) Open(ctx context.Context, id, name string) (io.ReadCloser, error) {
	if err := o.check(ctx, id); err != nil {
		return nil, err
	}

	return o.all.Open(ctx, id, name)
}

func (o owned) Index(ctx context.Context, id string, read func(*traceindex.Index) error) error {
	if err := o.check(ctx, id); err != nil {
		return err
	}

	return o.all.Index(ctx, id, read)
}

func (o owned) Owner(ctx context.Context, id string) (string, error) {
	if err := o.check(ctx, id); err != nil {
		return "", err
	}

	return o.all.Owner(ctx, id)
}

// List lists all rollouts to operators, and to others their own.
func (o owned) List(ctx context.Context, f rollout.Filter) (rollout.Page, error) {
	return o.all.List(ctx, visible(ctx, f))
}

// Counts counts what List lists.
func (o owned) Counts(ctx context.Context, f rollout.Filter) (rollout.Counts, error) {
	return o.all.Counts(ctx, visible(ctx, f))
}

// visible limits a filter to the rollouts that the caller may see.
func visible(ctx context.Context, f rollout.Filter) rollout.Filter {
	if caller := CallerOf(ctx); caller.Scope != ScopeOperator {
		f.Owner = caller.Name
	}

	return f
}
