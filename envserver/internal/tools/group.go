package tools

import (
	"context"
	"errors"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/rolloutd/rolloutd/envserver/internal/arguments"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Groups is the tools' interface of the engine that runs groups.
type Groups interface {
	// StartGroup starts the group, or finds the one with its id.
	StartGroup(ctx context.Context, g rollout.GroupSpec) (rollout.GroupState, error)
	// WaitGroup returns the state of a group once it has ended, or ctx's error.
	WaitGroup(ctx context.Context, id string) (rollout.GroupState, error)
	// AbortGroup ends a group; false when it had ended already.
	AbortGroup(ctx context.Context, id, reason string) (bool, error)
}

// GroupArgs are the arguments of run_group: those of run_rollout, which hold for each member, and the group's own.
type GroupArgs struct {
	RolloutArgs
	GroupSize       int     `json:"group_size" jsonschema:"number of rollouts in the group, all of the same task"`
	MaxReplacements *int    `json:"max_replacements,omitempty" jsonschema:"replacements in the group for rollouts that infrastructure failures lost. Default: group_size"`
	DeadlineS       float64 `json:"deadline_s,omitempty" jsonschema:"seconds after the start of the group at which running rollouts are aborted. Default: only their own limits apply"`
}

func groupSchema(agents []string) (*jsonschema.Schema, error) {
	s, err := arguments.SchemaOf(GroupArgs{RolloutArgs: defaultRolloutArgs(agents[0])})
	if err != nil {
		return nil, err
	}

	constrain(s, agents)

	one, most, zero, longest := 1.0, float64(rollout.MaxGroupSize), 0.0, maxSeconds
	s.Properties["group_size"].Minimum, s.Properties["group_size"].Maximum = &one, &most
	s.Properties["max_replacements"].Minimum = &zero
	s.Properties["deadline_s"].ExclusiveMinimum, s.Properties["deadline_s"].Maximum = &zero, &longest

	return s, nil
}

// StartGroup reads the arguments of run_group and starts the group.
func (t *Table) StartGroup(ctx context.Context, args map[string]any) (rollout.GroupState, error) {
	g, _, err := t.groupSpec(args)
	if err != nil {
		return rollout.GroupState{}, err
	}

	return t.o.Groups.StartGroup(ctx, g)
}

// groupSpec returns a validated group from the arguments; abort reports whether the group ends when its client leaves.
func (t *Table) groupSpec(args map[string]any) (spec rollout.GroupSpec, abort bool, err error) {
	a := GroupArgs{RolloutArgs: defaultRolloutArgs(t.o.Agents[0])}
	if err := t.decode(Call{Tool: runGroup, Args: args}, &a); err != nil {
		return spec, false, err
	}

	if a.RolloutID != "" {
		return spec, false, fault.Field("rollout_id", "a group names its rollouts itself: give group_id")
	}

	if a.GroupID == "" {
		a.GroupID = t.o.NewID()
	}

	member, err := t.resolved(a.RolloutArgs)
	if err != nil {
		return spec, false, err
	}

	g := rollout.GroupSpec{
		ID:              a.GroupID,
		Size:            a.GroupSize,
		MaxReplacements: a.GroupSize,
		Deadline:        time.Duration(a.DeadlineS * float64(time.Second)),
		Member:          member,
	}
	set(&g.MaxReplacements, a.MaxReplacements)

	return g, a.OnDisconnect == onDisconnectAbort, g.Validate()
}

// runGroup is the tool that runs a group and waits for it.
const runGroup = "run_group"

func (t *Table) runGroup(ctx context.Context, c Call) (*Text, error) {
	g, abort, err := t.groupSpec(c.Args)
	// a task may be megabytes, and the wait long
	c.Args = nil

	if err != nil {
		return nil, err
	}

	started, err := t.o.Groups.StartGroup(ctx, g)
	switch {
	case err != nil && ctx.Err() != nil:
		// the group may have started
		return nil, t.interruptedGroup(ctx, c, g.ID, abort)
	case err != nil:
		return nil, err
	}

	ended, err := t.o.Groups.WaitGroup(ctx, started.ID)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, t.interruptedGroup(ctx, c, started.ID, abort)
	case err != nil:
		return nil, err
	}

	return Write(GroupAnswerOf(ended))
}

// interruptedGroup handles a group whose call has ended early; see interruptedRollout.
func (t *Table) interruptedGroup(ctx context.Context, c Call, id string, abort bool) error {
	if abort && errors.Is(context.Cause(ctx), ErrGone) {
		outlives, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTimeout)
		defer cancel()
		// if the abort fails, the group ends at its own deadline
		_, _ = t.o.Groups.AbortGroup(outlives, id, goneReason)
	}

	err := interrupted(ctx, c, "")

	return fault.Wrap(fault.KindOf(err), err, "group %s goes on: GET /groups/%s returns its state", id, id)
}

// GroupAnswer is a group's state with the statistics of its rewards.
type GroupAnswer struct {
	rollout.GroupState
	Statistics rollout.Statistics `json:"statistics"`
	// PassAtK estimates the probability that one of k members passes, for k of 1, 2, 4 and so on up to the
	// number of members with a reward.
	PassAtK map[int]float64 `json:"pass_at_k"`
	// Advantages are those of the members with a reward, in their order: the reward minus the mean, divided
	// by the standard deviation.
	Advantages []float64 `json:"advantages"`
	// CentredAdvantages are the same without the division.
	CentredAdvantages []float64 `json:"centred_advantages"`
}

// GroupAnswerOf returns the answer about a group.
func GroupAnswerOf(g rollout.GroupState) GroupAnswer {
	rewards := g.Rewards()

	a := GroupAnswer{
		GroupState: g, Statistics: rollout.StatisticsOf(rewards), PassAtK: map[int]float64{},
		Advantages: rollout.Advantages(rewards, true), CentredAdvantages: rollout.Advantages(rewards, false),
	}
	for k := 1; k <= a.Statistics.N; k *= 2 {
		a.PassAtK[k] = rollout.PassAtK(a.Statistics.N, a.Statistics.Pass, k)
	}

	return a
}
