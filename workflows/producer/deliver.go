package producer

import (
	"slices"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/rolloutd/rolloutd/activities"
	"github.com/rolloutd/rolloutd/internal/delivery"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/producer"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/temporalx/failure"
)

const (
	deliveriesAtOnce = 4

	// one try to deliver a group; a sink whose trainer hangs is retried
	deliverTry = 5 * time.Minute

	// pause after an error that Temporal does not retry
	deliverPause = time.Minute

	// heartbeat is how long a delivery stays with a killed worker. Heartbeats also inform a worker of a cancellation.
	heartbeat = 20 * time.Second

	statusTry     = 30 * time.Second
	statusTimeout = 2 * time.Minute
	// Bounds of the pause between two requests for the sink's status. A trainer that has used a batch waits at most so
	// long for the next one to begin.
	leastWait = time.Second
	mostWait  = 10 * time.Second

	closeTimeout = 2 * time.Minute

	lookEvery = 5 * time.Minute

	// a group that has sent no report for so long is looked up
	lookAfter   = 10 * time.Minute
	lookAtOnce  = 100
	lookTimeout = 10 * time.Minute
)

// deliver starts the deliveries of the oldest groups of the outbox.
func (p *run) deliver() {
	if p.continuing || p.state.Phase == producer.Aborting {
		return
	}

	for _, f := range p.state.Outbox {
		if len(p.delivering) >= deliveriesAtOnce {
			return
		}

		if !p.delivering[f.GroupID] {
			p.delivering[f.GroupID] = true
			p.spawn(func(ctx workflow.Context) { p.deliverOne(ctx, f) })
		}
	}
}

// deliverOne delivers a group, however long the sink is unavailable. If this run ends first, the next one
// delivers it under the same key.
func (p *run) deliverOne(ctx workflow.Context, f producer.Finished) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:           rollout.DeliveryQueue,
		StartToCloseTimeout: deliverTry,
		HeartbeatTimeout:    heartbeat,
		WaitForCancellation: true,
		Summary:             f.GroupID + " to " + p.spec.Sink,
		RetryPolicy:         &temporal.RetryPolicy{MaximumInterval: time.Minute},
	})

	var d rollout.Delivery

	spec := rollout.DeliverySpec{
		GroupID:       f.GroupID,
		Sink:          p.spec.Sink,
		MaxTokens:     p.spec.Filter.MaxTokens,
		MaxVersionLag: p.spec.Filter.MaxVersionLag,
		MarkStale:     p.spec.Filter.MarkStale,
		OneVersion:    p.spec.Filter.OneVersion,
	}
	err := workflow.ExecuteActivity(ctx, p.acts.DeliverGroup, spec).Get(ctx, &d)

	again := err != nil && (ctx.Err() != nil || !undeliverable(err))
	if again {
		// canceled: this run ends
		_ = workflow.Sleep(ctx, deliverPause)
	}

	delete(p.delivering, f.GroupID)

	if again {
		// it is still in the outbox
		p.changed = true
		return
	}

	p.state.Outbox = slices.DeleteFunc(p.state.Outbox, func(o producer.Finished) bool { return o.GroupID == f.GroupID })
	p.count(d, err)
	p.since++
	p.statusDue = p.statusDue || p.spec.Eval != nil || p.totalSteps() > 0
	p.changed = true
}

// undeliverable reports whether no retry can deliver the group, because it does not exist. Workers of an earlier build
// answer Invalid for a sink that they do not have.
func undeliverable(err error) bool {
	kind := fault.KindOf(failure.FromTemporal(err))
	return kind == fault.NotFound || kind == fault.Invalid
}

func (p *run) count(d rollout.Delivery, err error) {
	c := &p.state.Counts

	switch {
	case err != nil:
		c.Refused++

		p.log.Warn("group not delivered", "error", failure.FromTemporal(err))
	case d.TooLong:
		p.filtered(producer.FilteredTooLong)
	case d.Stale && d.State == rollout.DeliverySkipped:
		p.filtered(producer.FilteredStale)
	case d.Mixed:
		p.filtered(producer.FilteredMixed)
	case d.State == rollout.DeliverySkipped:
		c.Skipped++
	case d.State == rollout.DeliveryRefused:
		c.Refused++
	default:
		c.Delivered++
		if d.Stale {
			c.Marked++
		}

		c.Rollouts += int64(d.Rollouts)
	}

	p.step()
}

// watchSink requests the sink's status while it could let a group start. The pause grows while the status does not
// change and nothing is delivered: a trainer that takes all that comes leaves the same room at each look.
func (p *run) watchSink(ctx workflow.Context) {
	wait := leastWait

	for {
		if err := workflow.Await(ctx, func() bool {
			return p.statusDue && p.state.Phase != producer.Paused
		}); err != nil {
			return
		}

		p.statusDue = false
		before, known := p.status, p.hasStatus
		since := p.since

		status, err := p.readDelivery(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			p.sinkError, p.statusDue = failure.FromTemporal(err).Error(), true
		default:
			p.status, p.hasStatus, p.sinkError = status, true, ""
			// the status may or may not include deliveries during the request
			p.since -= since
			p.step()
		}

		p.changed = true

		wait = min(2*wait, mostWait)
		if !known || since > 0 || p.hasStatus && before != p.status {
			wait = leastWait
		}

		if err := workflow.Sleep(ctx, wait); err != nil {
			return
		}
	}
}

func (p *run) readDelivery(ctx workflow.Context) (delivery.Status, error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:              rollout.DeliveryQueue,
		StartToCloseTimeout:    statusTry,
		HeartbeatTimeout:       heartbeat,
		ScheduleToCloseTimeout: statusTimeout,
		WaitForCancellation:    true,
		Summary:                p.spec.Sink,
		RetryPolicy:            &temporal.RetryPolicy{MaximumInterval: 10 * time.Second},
	})

	var status delivery.Status

	err := workflow.ExecuteActivity(ctx, p.acts.SinkStatus, activities.SinkInput{Sink: p.spec.Sink}).Get(ctx, &status)

	return status, err
}

// closeSink tells the sink that no more groups follow from this producer. It only logs an error, because
// everything is delivered.
func (p *run) closeSink() {
	ctx := workflow.WithActivityOptions(p.ctx, workflow.ActivityOptions{
		TaskQueue:              rollout.DeliveryQueue,
		StartToCloseTimeout:    statusTry,
		HeartbeatTimeout:       heartbeat,
		ScheduleToCloseTimeout: closeTimeout,
		Summary:                p.spec.Sink,
		RetryPolicy:            &temporal.RetryPolicy{MaximumInterval: 10 * time.Second},
	})
	if err := workflow.ExecuteActivity(ctx, p.acts.CloseSink, activities.SinkInput{Sink: p.spec.Sink}).
		Get(ctx, nil); err != nil {
		p.log.Warn("sink not closed", "error", failure.FromTemporal(err))
	}
}

// step updates the training step: the trainer's own, or the number that follows from the delivered rollouts.
func (p *run) step() {
	if p.trainerHasFinished() {
		// the steps of another producer's trainer
		return
	}

	step := p.status.Step
	if p.status.BatchSize == 0 && step == 0 {
		step = int(p.state.Counts.Rollouts / int64(p.batch()))

		// the sink has not answered this run yet, or its trainer is away
		if step > p.state.Step && !p.status.Ready && p.trustsTrainer() {
			return
		}
	}

	p.state.Step = max(p.state.Step, step)
}

// lookForLost looks up groups that have not reported for lookAfter: their last report may be lost, or an
// operator has terminated them.
func (p *run) lookForLost(ctx workflow.Context) {
	for {
		_, err := workflow.AwaitWithTimeout(ctx, lookEvery, func() bool { return p.anyStale() })
		if err != nil {
			return
		}

		ids := p.unreportedGroups()
		if len(ids) == 0 {
			continue
		}

		var reports []rollout.GroupReport

		err = workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
			TaskQueue:              rollout.DeliveryQueue,
			StartToCloseTimeout:    statusTimeout,
			HeartbeatTimeout:       heartbeat,
			ScheduleToCloseTimeout: lookTimeout,
			WaitForCancellation:    true,
		}), p.acts.GroupReports, activities.LookInput{GroupIDs: ids, Owner: p.spec.Owner}).Get(ctx, &reports)
		if ctx.Err() != nil {
			return
		}

		for _, id := range ids {
			if i := p.state.Find(id); i >= 0 {
				p.state.Running[i].ReportedAt = workflow.Now(ctx)
			}
		}

		if err != nil {
			p.log.Warn("groups not looked up", "error", failure.FromTemporal(err))
			continue
		}

		for _, r := range reports {
			p.report(r)
		}
	}
}

// anyStale reports whether a group must be looked up.
func (p *run) anyStale() bool {
	return slices.ContainsFunc(p.state.Running, func(g producer.RunningGroup) bool { return g.ReportedAt.IsZero() })
}

// unreportedGroups returns running groups without a recent report, at most lookAtOnce. The next look takes the others.
func (p *run) unreportedGroups() []string {
	now := workflow.Now(p.ctx)

	var ids []string
	for i := range p.state.Running {
		if g := &p.state.Running[i]; now.Sub(g.ReportedAt) >= lookAfter && len(ids) < lookAtOnce {
			ids = append(ids, g.ID)
		}
	}

	return ids
}
