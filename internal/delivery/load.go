package delivery

import (
	"context"
	"fmt"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/store"
	"github.com/rolloutd/rolloutd/internal/trajectory/formats"
	"github.com/rolloutd/rolloutd/internal/trajectory/sequence"
)

// reader makes training sequences of stored traces.
type reader struct{ store *store.Store }

// load fills g.Data and omits siblings without a token to train on. A group that the sink does not accept
// is a fault.Conflict. All sequences are in memory together, at most sequence.MaxTokens tokens.
func (r reader) load(ctx context.Context, g *Group, s Named) error {
	siblings := g.Siblings
	g.Siblings, g.Data = nil, nil
	room := sequence.MaxTokens

	for _, sibling := range siblings {
		t, rewards, err := r.trajectory(ctx, sibling.RolloutID, s.Choice)
		if err != nil {
			return err
		}

		t.Rows(s.One)

		if len(t.Sequences) == 0 {
			continue
		}

		if room -= t.Tokens(); room < 0 {
			return fault.New(fault.Conflict, "the sequences of group %s have more than %d tokens",
				g.ID, sequence.MaxTokens)
		}

		reward := sibling.Reward
		g.Siblings = append(g.Siblings, sibling)
		g.Data = append(g.Data, formats.Scored{
			RolloutID:  sibling.RolloutID,
			Reward:     &reward,
			Rewards:    rewards,
			Standing:   g.standings[sibling.RolloutID],
			Trajectory: t,
		})
	}

	return g.check(s.Partial, len(siblings))
}

// check refuses a group without data, and an incomplete one if the sink accepts only complete ones.
func (g *Group) check(partial bool, rewarded int) error {
	n := len(g.Data)
	if n == g.Size || n > 0 && partial {
		return nil
	}

	why := fmt.Sprintf("%d of %d rollouts of group %s have a reward, %d of these have tokens to train on",
		rewarded, g.Size, g.ID, n)
	if n > 0 {
		why += "; the sink accepts only complete groups (partial: true accepts others)"
	}

	return fault.New(fault.Conflict, "%s", why)
}

// trajectory returns the sequences of a rollout with the rewards of their turns, and its named rewards.
func (r reader) trajectory(
	ctx context.Context,
	id string,
	choice sequence.Choice,
) (t sequence.Trajectory, rewards map[string]float64, err error) {
	var head rollout.Result
	if err := r.store.JSON(ctx, store.HeadKey(id), &head); err != nil {
		return t, nil, fault.Wrap(fault.Unavailable, err, "result of rollout %s", id)
	}

	key := head.Links["trace"]
	if key == "" {
		return t, nil, nil
	}

	lines, err := r.store.Reader(ctx, key)
	if err != nil {
		return t, nil, fault.Wrap(fault.Unavailable, err, "trace of rollout %s", id)
	}
	defer lines.Close()

	t, err = sequence.Read(lines, choice)
	if err != nil {
		return t, nil, fault.Wrap(unreadable(err), err, "trace of rollout %s", id)
	}

	t.SetRewards(head.TurnRewards)

	return t, head.Rewards, nil
}

// unreadable returns the kind of an error in reading a trace: temporary or permanent.
func unreadable(err error) fault.Kind {
	if k := fault.KindOf(err); k == fault.Invalid || k == fault.Exhausted {
		return fault.Conflict
	}

	return fault.Unavailable
}
