package workflows

import (
	"fmt"

	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/rolloutd/rolloutd/activities"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/temporalx/failure"
	"github.com/rolloutd/rolloutd/internal/temporalx/searchattr"
)

// GroupWorkflow runs the rollouts of a group concurrently as child workflows, and returns how they ended.
// It replaces rollouts that the infrastructure lost. It fails only if the specification is Invalid or its
// state could not be stored.
func GroupWorkflow(ctx workflow.Context, spec rollout.GroupSpec) (rollout.GroupState, error) {
	spec, err := loaded(ctx, spec)
	if err != nil {
		reportFailure(ctx, spec, err)
		return rollout.GroupState{}, failure.ToTemporal(err)
	}

	g, err := newGroup(ctx, spec)
	if err != nil {
		reportFailure(ctx, spec, err)
		return rollout.GroupState{}, failure.ToTemporal(err)
	}

	return g.run()
}

// group is one group of rollouts.
type group struct {
	spec rollout.GroupSpec

	// the context of all work: it outlives a cancellation of the workflow
	ctx  workflow.Context
	log  log.Logger
	keys searchattr.Keys

	// nil: only to name the methods
	acts  *activities.Activities
	state rollout.GroupState

	// the newest rollout of each running member
	children map[int]workflow.ChildWorkflowFuture

	// why the group ends early; nil if it does not
	ending *ending
}

// ending is why a group ends early.
type ending struct {
	aborted bool
	reason  string
}

func newGroup(ctx workflow.Context, spec rollout.GroupSpec) (*group, error) {
	spec.Member.Limits = spec.Member.Limits.Filled()
	if err := spec.Validate(); err != nil {
		return nil, err
	}

	work, _ := workflow.NewDisconnectedContext(ctx)

	g := &group{
		spec: spec, ctx: work, keys: searchattr.Typed(), log: log.With(workflow.GetLogger(ctx), "group", spec.ID),
		children: map[int]workflow.ChildWorkflowFuture{},
		state: rollout.GroupState{
			ID:        spec.ID,
			TaskID:    spec.Member.Task.ID,
			Owner:     spec.Member.Owner,
			Size:      spec.Size,
			StartedAt: workflow.Now(ctx),
			Members:   make([]rollout.Member, spec.Size),
		},
	}
	for i := range g.state.Members {
		g.state.Members[i] = rollout.Member{Index: i, RolloutID: rollout.MemberID(spec.ID, i, 0)}
	}

	err := workflow.SetQueryHandlerWithOptions(ctx, rollout.QueryState,
		func() (rollout.GroupState, error) { return g.state, nil },
		workflow.QueryHandlerOptions{Description: "How the members of the group stand"})
	if err != nil {
		return nil, err
	}

	g.label()
	workflow.Go(work, func(work workflow.Context) { g.listen(work, ctx.Done()) })

	if spec.ReportTo != "" {
		workflow.Go(work, g.report)
	}

	return g, nil
}

// run starts all members, waits until each has ended, and stores the state.
func (g *group) run() (rollout.GroupState, error) {
	g.arm()

	members := workflow.NewWaitGroup(g.ctx)
	for i := range g.state.Members {
		members.Add(1)
		workflow.Go(g.ctx, func(ctx workflow.Context) {
			defer members.Done()

			g.member(ctx, i)
		})
	}

	members.Wait(g.ctx)
	now := workflow.Now(g.ctx)
	g.state.FinishedAt = &now
	g.state.Outcome, g.state.Error = g.outcome()
	g.finish()

	err := g.store()
	if g.spec.ReportTo != "" {
		g.lastReport()
	}

	return g.state, err
}

// outcome returns how the group ended, and why it is not complete.
func (g *group) outcome() (rollout.GroupOutcome, string) {
	outcome, why := g.state.EndedAs()
	if g.ending == nil || outcome == rollout.GroupComplete {
		return outcome, why
	}

	if g.ending.aborted {
		outcome = rollout.GroupAborted
	}

	return outcome, g.ending.reason
}

// store writes the state to the store, because Temporal deletes the workflow after its retention.
func (g *group) store() error {
	ctx := workflow.WithLocalActivityOptions(g.ctx, workflow.LocalActivityOptions{
		StartToCloseTimeout:    composeTry,
		ScheduleToCloseTimeout: composeTimeout,
		RetryPolicy:            composeRetries(),
		Summary:                string(g.state.Outcome),
	})

	return workflow.ExecuteLocalActivity(ctx, g.acts.StoreGroup, g.state).Get(ctx, nil)
}

// label sets the search attributes that do not change.
func (g *group) label() {
	updates := []temporal.SearchAttributeUpdate{
		g.keys.Group.ValueSet(searchattr.Keyword(g.spec.ID)),
		g.keys.Model.ValueSet(searchattr.Keyword(g.spec.Member.Model.Name)), g.keys.Phase.ValueSet("running"),
		g.keys.Numbers.ValueSet(searchattr.Numbers{Size: &g.spec.Size}.Text()),
	}
	if id := g.spec.Member.Task.ID; id != "" {
		updates = append(updates, g.keys.Task.ValueSet(searchattr.Keyword(id)))
	}

	searchattr.Upsert(g.ctx, g.log, updates...)
}

// finish sets the final search attributes and details.
func (g *group) finish() {
	s := rollout.StatisticsOf(g.state.Rewards())
	updates := []temporal.SearchAttributeUpdate{
		g.keys.Phase.ValueSet(string(rollout.PhaseDone)), g.keys.Outcome.ValueSet(string(g.state.Outcome)),
	}

	updates = append(updates, g.keys.Numbers.ValueSet(searchattr.Numbers{
		Size:     &g.spec.Size,
		Replaced: &g.state.Replaced,
	}.Text()))
	if s.N > 0 {
		updates = append(updates, g.keys.Reward.ValueSet(s.Mean))
	}

	searchattr.Upsert(g.ctx, g.log, updates...)
	g.describe()
}

// describe sets the summary on Temporal's page of the workflow.
func (g *group) describe() {
	s := rollout.StatisticsOf(g.state.Rewards())

	text := fmt.Sprintf("%d of %d members have ended, %d rollouts replaced, mean reward %g",
		g.state.Finished(), g.spec.Size, g.state.Replaced, s.Mean)
	if g.state.Done() {
		text = fmt.Sprintf("%s: %s", g.state.Outcome, text)
	}

	workflow.SetCurrentDetails(g.ctx, text)
}
