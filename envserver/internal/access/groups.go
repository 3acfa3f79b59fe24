package access

import (
	"context"

	"github.com/rolloutd/rolloutd/envserver/internal/tools"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Groups is the edge's interface of the engine that runs groups of rollouts.
type Groups interface {
	tools.Groups
	// Group returns the state of a group; fault.NotFound for an unknown id.
	Group(ctx context.Context, id string) (rollout.GroupState, error)
	// GroupOwner is the owner of a group's rollouts; fault.NotFound for an unknown id.
	GroupOwner(ctx context.Context, id string) (string, error)
	// Groups lists groups without their members: those that run first, then by their end, latest first, a
	// page at a time.
	Groups(ctx context.Context, f rollout.Filter) (rollout.GroupPage, error)
}

// NewOwnedGroups limits each caller to its own groups. producers may be nil.
func NewOwnedGroups(all Groups, rollouts Rollouts, producers Producers) Groups {
	return ownedGroups{all, ids{rollouts, all, producers}}
}

// ownedGroups shows each caller the groups that its token started, and operators all groups; see owned.
type ownedGroups struct {
	all Groups
	ids ids
}

// StartGroup starts the group for the caller, within what its token may ask for.
func (o ownedGroups) StartGroup(ctx context.Context, g rollout.GroupSpec) (rollout.GroupState, error) {
	caller := CallerOf(ctx)
	if err := g.Member.Sandbox.CheckMax(caller.MaxSandbox); err != nil {
		return rollout.GroupState{}, err
	}

	if err := o.ids.checkGroup(ctx, g); err != nil {
		return rollout.GroupState{}, err
	}

	g.Member.Owner = caller.Name

	state, err := o.all.StartGroup(ctx, g)
	if err == nil && !caller.may(state.Owner) {
		return rollout.GroupState{}, fault.New(fault.Conflict, "group_id: %q is taken: choose another", g.ID)
	}

	return state, err
}

func (o ownedGroups) check(ctx context.Context, id string) error {
	return checkOwner(ctx, "group", id, o.all.GroupOwner)
}

func (o ownedGroups) Group(ctx context.Context, id string) (rollout.GroupState, error) {
	if err := o.check(ctx, id); err != nil {
		return rollout.GroupState{}, err
	}

	return o.all.Group(ctx, id)
}

func (o ownedGroups) WaitGroup(ctx context.Context, id string) (rollout.GroupState, error) {
	if err := o.check(ctx, id); err != nil {
		return rollout.GroupState{}, err
	}

	return o.all.WaitGroup(ctx, id)
}

func (o ownedGroups) AbortGroup(ctx context.Context, id, reason string) (bool, error) {
	if err := o.check(ctx, id); err != nil {
		return false, err
	}

	return o.all.AbortGroup(ctx, id, reason)
}

func (o ownedGroups) GroupOwner(ctx context.Context, id string) (string, error) {
	if err := o.check(ctx, id); err != nil {
		return "", err
	}

	return o.all.GroupOwner(ctx, id)
}

// Groups lists all groups to operators, and to others their own.
func (o ownedGroups) Groups(ctx context.Context, f rollout.Filter) (rollout.GroupPage, error) {
	return o.all.Groups(ctx, visible(ctx, f))
}
