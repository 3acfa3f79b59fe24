// Package producer has ProducerWorkflow. It runs as many groups of a task set at once as the trainer behind
// a sink can take, and delivers the finished ones.
//
// Groups are abandoned children: they outlive a run of the producer, which continues as new when its
// history is long, and report to it by signals. A group whose report was lost is looked up. All state that
// must survive is in producer.State.
package producer

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/rolloutd/rolloutd/activities"
	"github.com/rolloutd/rolloutd/internal/delivery"
	"github.com/rolloutd/rolloutd/internal/producer"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/temporalx/failure"
	"github.com/rolloutd/rolloutd/internal/temporalx/searchattr"
)

// Register registers the workflow of producers. A running one continues on a newer version of the workers.
func Register(w worker.WorkflowRegistry) {
	w.RegisterWorkflowWithOptions(Workflow, workflow.RegisterOptions{
		Name:               producer.WorkflowName,
		VersioningBehavior: workflow.VersioningBehaviorAutoUpgrade,
	})
}

// Workflow runs a producer to its end and returns its last state. It fails only if the specification is
// Invalid or the state could not be stored.
func Workflow(ctx workflow.Context, spec producer.Spec) (producer.State, error) {
	p, err := newRun(ctx, spec)
	if err != nil {
		return producer.State{}, failure.ToTemporal(err)
	}

	return p.run(ctx)
}

// run is one run of the workflow.
type run struct {
	spec producer.Spec

	// the context of all work: it outlives a cancellation of the workflow
	ctx  workflow.Context
	log  log.Logger
	keys searchattr.Keys

	// nil: only to name the methods
	acts  *activities.Activities
	state producer.State

	// order of the tasks in the epoch
	order []int

	// the epoch of order; -1: none yet
	epoch int

	// groups whose start is not confirmed
	starting int

	// the state has changed since the last decision
	changed bool

	// this run ends and another continues
	continuing bool

	// the outcome is decided: changes and aborts have no effect
	finishing bool
	abort     string

	// the context of activities and timers: canceled when this run ends
	io     workflow.Context
	stopIO workflow.CancelFunc

	// the coroutines that use io
	tasks workflow.WaitGroup

	// groups that are being delivered
	delivering map[string]bool

	status delivery.Status

	// status is set
	hasStatus bool

	// the sink's status is to be requested
	statusDue bool

	// groups delivered since the status was known
	since     int
	sinkError string
}

func newRun(ctx workflow.Context, spec producer.Spec) (*run, error) {
	if err := spec.Validate(); err != nil {
		return nil, err
	}

	work, _ := workflow.NewDisconnectedContext(ctx)
	p := &run{
		spec: spec, ctx: work, log: log.With(workflow.GetLogger(ctx), "producer", spec.ID), keys: searchattr.Typed(),
		epoch: -1, delivering: map[string]bool{}, statusDue: true, tasks: workflow.NewWaitGroup(work),
	}
	p.io, p.stopIO = workflow.WithCancel(work)
	p.state = spec.Begin(workflow.Now(ctx))

	err := workflow.SetQueryHandlerWithOptions(ctx, rollout.QueryState,
		func() (producer.State, error) { return p.state, nil },
		workflow.QueryHandlerOptions{Description: "Cursor, running groups, deliveries and sums of the producer"})
	if err != nil {
		return nil, err
	}

	p.label()
	p.listen(ctx)
	// the previous run may not have reached all groups
	if p.state.Phase == producer.Aborting {
		p.abortAll(p.state.Error)
	}

	p.spawn(p.watchSink)
	p.spawn(p.lookForLost)

	return p, nil
}

// spawn runs f as a coroutine with p.io, which ends when that is canceled.
func (p *run) spawn(f func(workflow.Context)) {
	p.tasks.Add(1)
	workflow.Go(p.io, func(ctx workflow.Context) {
		defer p.tasks.Done()

		f(ctx)
	})
}

// run starts work after each change, until the producer has ended or its history is long.
func (p *run) run(ctx workflow.Context) (producer.State, error) {
	for {
		p.changed = false
		p.advance()

		if outcome, done := p.isFinished(); done {
			return p.finish(outcome)
		}

		if workflow.GetInfo(ctx).GetContinueAsNewSuggested() {
			return p.state, p.continueAsNew(ctx)
		}

		p.describe()

		if err := workflow.Await(p.ctx, func() bool { return p.changed }); err != nil {
			return p.state, err
		}
	}
}

// continueAsNew continues as new with the same state. It first ends running deliveries, because two at once
// could deliver a group twice.
func (p *run) continueAsNew(ctx workflow.Context) error {
	p.continuing = true
	p.stopIO()
	p.tasks.Wait(p.ctx)

	if err := workflow.Await(p.ctx, func() bool { return p.starting == 0 }); err != nil {
		return err
	}

	next := p.spec
	next.From = &p.state

	return workflow.NewContinueAsNewError(ctx, producer.WorkflowName, next)
}

// isFinished reports whether nothing is left to do, and the outcome.
func (p *run) isFinished() (producer.Outcome, bool) {
	if len(p.state.Running) > 0 || p.starting > 0 {
		return "", false
	}

	switch {
	case p.state.Phase == producer.Aborting:
		// the state lists the groups that are not delivered
		return producer.Aborted, true
	case len(p.state.Outbox) > 0:
		return "", false
	case p.state.Phase == producer.Draining:
		return producer.Stopped, true
	case p.state.Evaluation != nil, !p.exhausted():
		return "", false
	}

	return producer.Completed, true
}

// finish closes the sink and stores the last state, because Temporal deletes the workflow after its retention.
func (p *run) finish(outcome producer.Outcome) (producer.State, error) {
	p.finishing = true
	p.stopIO()
	p.tasks.Wait(p.ctx)
	p.closeSink()
	now := workflow.Now(p.ctx)

	p.state.Phase, p.state.Outcome, p.state.FinishedAt, p.state.Waiting = producer.Done, outcome, &now, ""
	if outcome == producer.Completed && !p.atTheEnd() {
		p.state.Waiting = fmt.Sprintf("the groups of all %d steps are delivered", p.totalSteps())
	}

	searchattr.Upsert(p.ctx, p.log,
		p.keys.Phase.ValueSet(string(producer.Done)), p.keys.Outcome.ValueSet(string(outcome)))
	p.describe()
	ctx := workflow.WithLocalActivityOptions(p.ctx, workflow.LocalActivityOptions{
		StartToCloseTimeout:    storeTry,
		ScheduleToCloseTimeout: storeTimeout,
		Summary:                string(outcome),
		RetryPolicy:            &temporal.RetryPolicy{MaximumInterval: time.Minute},
	})

	return p.state, workflow.ExecuteLocalActivity(ctx, p.acts.StoreProducer, p.state).Get(ctx, nil)
}

const (
	storeTry = time.Minute

	// if the store is down for longer, the last state is lost
	storeTimeout = 24 * time.Hour
)

// label sets the search attributes that do not change.
func (p *run) label() {
	updates := []temporal.SearchAttributeUpdate{p.keys.Phase.ValueSet(string(p.state.Phase))}
	if p.spec.Name != "" {
		updates = append(updates, p.keys.Task.ValueSet(searchattr.Keyword(p.spec.Name)))
	}

	searchattr.Upsert(p.ctx, p.log, updates...)
}

// describe sets the summary on Temporal's page of the workflow.
func (p *run) describe() {
	s, c := p.state, p.state.Counts
	workflow.SetCurrentDetails(p.ctx, fmt.Sprintf(
		"%s: %d groups started, %d delivered, %d skipped or refused, %d run with %d rollouts in flight, step %d\n%s",
		s.Phase, c.Started, c.Delivered, c.Skipped+c.Refused, len(s.Running), s.InFlight(), s.Step, s.Waiting))
}
