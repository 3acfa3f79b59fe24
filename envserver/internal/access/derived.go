package access

import (
	"context"
	"regexp"

	"golang.org/x/sync/errgroup"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/producer"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// ids protects ids that are derived from others: a client that starts a rollout or a group under the id
// that a group or a producer of another client will use would keep that one from running.
type ids struct {
	rollouts Rollouts

	// nil: the server has none
	groups Groups

	// nil: the server has none
	producers Producers
}

// trajectoryID matches the ids of rollouts of trajectories; see the package executor.
var trajectoryID = regexp.MustCompile(`^trajectory-[0-9a-f]{32}-[0-9]+$`)

type trajectoryKey struct{}

// ForTrajectory returns ctx of the start of a trajectory's rollout.
func ForTrajectory(ctx context.Context) context.Context {
	return context.WithValue(ctx, trajectoryKey{}, true)
}

// checkRollout refuses the id of a rollout that belongs to a trajectory, or to a group or producer of another client.
func (i ids) checkRollout(ctx context.Context, id string) error {
	if trajectoryID.MatchString(id) && ctx.Value(trajectoryKey{}) == nil {
		return fault.New(fault.Conflict, "rollout_id: %q is reserved for a trajectory: choose another", id)
	}

	group, derived := rollout.GroupOfMember(id)
	if !derived {
		return nil
	}

	taken, err := i.others(ctx, i.groupOwner, group)
	if err == nil && !taken {
		taken, err = i.ofProducer(ctx, group)
	}

	if err == nil && taken {
		return fault.New(fault.Conflict, "rollout_id: %q is taken: choose another", id)
	}

	return err
}

// checkGroup refuses the id of a group that belongs to a producer of another client, or whose rollouts
// would have ids that another client has taken.
func (i ids) checkGroup(ctx context.Context, g rollout.GroupSpec) error {
	taken, err := i.ofProducer(ctx, g.ID)
	if err != nil {
		return err
	}

	if taken {
		return fault.New(fault.Conflict, "group_id: %q is taken: choose another", g.ID)
	}

	return i.checkMembers(ctx, g)
}

// lookups bounds the members of a group that are looked up at once.
const lookups = 8

func (i ids) checkMembers(ctx context.Context, g rollout.GroupSpec) error {
	caller := CallerOf(ctx).Name
	if caller == "" {
		// all callers are one
		return nil
	}

	all, lookCtx := errgroup.WithContext(ctx)
	all.SetLimit(lookups)

	for n := range g.Size {
		all.Go(func() error {
			id := rollout.MemberID(g.ID, n, 0)

			owner, err := i.rollouts.Owner(lookCtx, id)
			if fault.Is(err, fault.NotFound) || err == nil && owner == caller {
				return nil
			}

			if err != nil {
				return err
			}

			return fault.New(fault.Conflict, "group_id: the id %q of a rollout of group %q is taken: choose another",
				id, g.ID)
		})
	}

	err := all.Wait()
	if fault.Is(err, fault.Conflict) {
		if _, missing := i.groups.GroupOwner(ctx, g.ID); missing == nil {
			// they are the rollouts of the group itself
			return nil
		}
	}

	return err
}

// ofProducer reports whether a group's id is that of a group of another client's producer.
func (i ids) ofProducer(ctx context.Context, group string) (bool, error) {
	if i.producers == nil {
		return false, nil
	}

	for _, p := range producer.OfGroup(group) {
		if taken, err := i.others(ctx, i.producers.ProducerOwner, p); taken || err != nil {
			return taken, err
		}
	}

	return false, nil
}

func (i ids) groupOwner(ctx context.Context, id string) (string, error) {
	if i.groups == nil {
		return "", fault.New(fault.NotFound, "no groups")
	}

	return i.groups.GroupOwner(ctx, id)
}

// others reports whether something exists that the caller may not see.
func (i ids) others(
	ctx context.Context,
	ownerOf func(context.Context, string) (string, error),
	id string,
) (bool, error) {
	caller := CallerOf(ctx)
	if caller.Scope == ScopeOperator {
		return false, nil
	}

	owner, err := ownerOf(ctx, id)
	if fault.Is(err, fault.NotFound) {
		return false, nil
	}

	return err == nil && !caller.may(owner), err
}
