package producer

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/rolloutd/rolloutd/internal/delivery"
	"github.com/rolloutd/rolloutd/internal/producer"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/temporalx/searchattr"
)

// advance starts deliveries, evaluation groups and training groups, within the bounds.
func (p *run) advance() {
	p.deliver()
	p.evaluate()

	for p.mayStart() {
		p.start(p.next())
	}
}

// mayStart reports whether a training group may start, and records in the state why not.
func (p *run) mayStart() bool {
	p.state.Waiting = p.blockedBy()
	return p.state.Waiting == ""
}

// blockedBy is why no training group may start; "" if one may.
func (p *run) blockedBy() string {
	s := &p.state
	switch {
	case s.Phase != producer.Running:
		return string(s.Phase)
	case p.atTheEnd():
		return "all tasks have started"
	case !p.hasStatus:
		if p.sinkError != "" {
			return "sink " + p.spec.Sink + " does not answer: " + p.sinkError
		}

		return "sink " + p.spec.Sink + " was not asked yet"
	case p.trainerHasFinished():
		p.statusDue = true
		return fmt.Sprintf("the trainer has taken all of its %d steps; the next one has not registered", p.status.TotalSteps)
	case p.enoughSteps():
		p.statusDue = true
		return "the groups in flight are enough for all steps"
	case p.spec.Eval != nil && p.spec.Eval.Instead && s.Evaluation != nil:
		return "an evaluation runs"
	case s.InFlight() >= s.Bounds.Concurrency || len(s.Running) >= producer.MaxGroups:
		return fmt.Sprintf("%d rollouts are in flight, at most %d may be", s.InFlight(), s.Bounds.Concurrency)
	}

	return p.noRoom()
}

func waitingText(why string) string {
	if why == "" {
		return ""
	}

	return ": " + why
}

// noRoom is why the sink takes no further group; "" if it does. Running and undelivered groups count as used room.
func (p *run) noRoom() string {
	ahead := p.training() + len(p.state.Outbox)
	why := ""

	switch room, bounded := p.offpolicyRoom(); {
	case !p.status.Ready:
		why = cmp.Or(p.status.Waiting, "the trainer has not started")
	case len(p.state.Outbox) >= maxOutbox && p.boundsOutbox():
		why = fmt.Sprintf("%d finished groups are not delivered yet", len(p.state.Outbox))
	case p.status.Room != delivery.Unbounded && ahead >= p.status.Room-p.since:
		why = fmt.Sprintf("the sink takes %d groups, and %d are on their way", max(p.status.Room-p.since, 0), ahead)
		why += waitingText(p.status.Waiting)
	case bounded && ahead >= room:
		why = fmt.Sprintf(
			"%d groups are on their way, at most %d may be ahead of the trainer (max_batches_offpolicy %d)",
			ahead,
			room,
			p.state.Bounds.MaxBatchesOffpolicy,
		)
	default:
		return ""
	}

	p.statusDue = true

	if p.sinkError != "" {
		// its last status may be outdated
		return "sink " + p.spec.Sink + " does not answer" + waitingText(p.sinkError)
	}

	return why
}

// maxOutbox is the number of undelivered groups with which no further one starts. A sink of any room may take none for
// days, and the state must fit into the input of the next run.
const maxOutbox = 1000

// boundsOutbox reports whether maxOutbox holds. It did not in runs of an earlier build.
func (p *run) boundsOutbox() bool {
	return workflow.GetVersion(p.ctx, "bound-the-outbox", workflow.DefaultVersion, 1) > workflow.DefaultVersion
}

// offpolicyRoom is how many groups may run or wait at the producer within the off-policy depth; false: no limit.
func (p *run) offpolicyRoom() (int, bool) {
	b := p.state.Bounds.MaxBatchesOffpolicy
	if b == 0 {
		return 0, false
	}

	queued := p.status.Queued + p.since*p.spec.GroupSize
	if p.status.BatchSize == 0 {
		// the sink has no trainer that reports what it has used
		queued = 0
	}

	room := (b*p.batch() - queued) / p.spec.GroupSize
	if queued == 0 {
		// a batch smaller than a group must not stop the producer
		room = max(room, 1)
	}

	return room, true
}

// batch is the number of rollouts of a training step.
func (p *run) batch() int {
	switch {
	case p.status.BatchSize > 0:
		return p.status.BatchSize
	case p.spec.BatchSize > 0:
		return p.spec.BatchSize
	}

	return p.spec.GroupSize
}

// training counts the running training groups.
func (p *run) training() int {
	n := 0

	for i := range p.state.Running {
		if !p.state.Running[i].Eval {
			n++
		}
	}

	return n
}

// atTheEnd reports whether each task of each epoch has started.
func (p *run) atTheEnd() bool {
	return len(p.state.Again) == 0 && p.spec.Epochs > 0 &&
		p.state.Cursor.Number >= int64(p.spec.Epochs)*int64(p.spec.Tasks.Len)
}

// totalSteps is the number of steps after which the trainer ends; 0: unknown or unlimited.
func (p *run) totalSteps() int {
	if p.state.Bounds.TotalSteps > 0 {
		return p.state.Bounds.TotalSteps
	}

	return p.status.TotalSteps
}

// enoughSteps reports whether the delivered and running groups suffice for all steps. While the sink has no trainer,
// nobody knows the size of a step.
func (p *run) enoughSteps() bool {
	total := p.totalSteps()

	return total > 0 && p.covered(p.training()+len(p.state.Outbox)) >= int64(total)*int64(p.batch()) &&
		(p.status.Ready || !p.trustsTrainer())
}

// trustsTrainer reports whether only the trainer's own step and batch size count where the sink has a trainer, also
// while it is away or takes steps again. Runs of an earlier build counted delivered rollouts then. It is asked where
// that makes a difference, since the first answer is an event of the history.
func (p *run) trustsTrainer() bool {
	return workflow.GetVersion(p.ctx, "trust-the-trainer", workflow.DefaultVersion, 1) > workflow.DefaultVersion
}

// trainerHasFinished reports whether the sink's trainer was at its end before this producer began. A producer that
// has started groups was for that trainer and ends with it; this one waits for the next trainer. Runs of earlier builds
// did not, or not with a bound of their own.
func (p *run) trainerHasFinished() bool {
	s := p.status
	if p.state.Counts.Started > 0 || s.TotalSteps == 0 || s.Step < s.TotalSteps {
		return false
	}

	const all = 2

	version := workflow.GetVersion(p.ctx, "wait-for-next-trainer", workflow.DefaultVersion, all)

	return version == all || version > workflow.DefaultVersion && p.state.Bounds.TotalSteps == 0
}

// covered counts the rollouts that the trainer has used, has queued, or will get from the given number of
// running groups.
func (p *run) covered(groups int) int64 {
	coming := int64(groups) * int64(p.spec.GroupSize)
	if p.status.BatchSize == 0 {
		return p.state.Counts.Rollouts + coming
	}

	step := p.state.Step
	// a trainer that goes on from a checkpoint takes the steps since then again
	if now := p.status.Step; now < step && step < p.totalSteps() && p.trustsTrainer() {
		step = now
	}

	return int64(step)*int64(p.batch()) + int64(p.status.Queued-p.status.Training) + int64(
		p.since,
	)*int64(p.spec.GroupSize) + coming
}

// exhausted reports whether no further training group will start. The caller has checked that none is running.
func (p *run) exhausted() bool {
	if p.atTheEnd() {
		return true
	}

	if total := p.totalSteps(); total == 0 || p.spec.Eval != nil && p.state.Step < total {
		// unlimited, or the last evaluation is still due
		return false
	}

	if p.status.BatchSize > 0 && p.since > 0 {
		// deliveries during the status request may count twice: request it again
		return false
	}

	return p.hasStatus && p.enoughSteps()
}

// next is the place of the next group: a task to repeat, or the next one in the order.
func (p *run) next() producer.Cursor {
	if len(p.state.Again) > 0 {
		c := p.state.Again[0]
		p.state.Again = slices.Delete(p.state.Again, 0, 1)

		return c
	}

	c := p.state.Cursor
	p.state.Cursor.Number++
	p.state.Counts.Started++

	return c
}

// taskAt is the task at a place of the sequence.
func (p *run) taskAt(c producer.Cursor) rollout.TaskRef {
	n := int64(p.spec.Tasks.Len)
	if epoch := int(c.Number / n); epoch != p.epoch {
		p.epoch, p.order = epoch, producer.TaskOrder(p.spec.Tasks.Len, p.spec.Shuffle, epoch)
	}

	return rollout.TaskRef{Set: p.spec.Tasks, Index: p.order[c.Number%n]}
}

// start starts a training group.
func (p *run) start(c producer.Cursor) {
	ref := p.taskAt(c)
	g := rollout.GroupSpec{
		ID:              producer.GroupID(p.spec.ID, c),
		Size:            p.spec.GroupSize,
		MaxReplacements: p.spec.MaxReplacements,
		Deadline:        p.spec.GroupDeadline,
		From:            &ref,
	}
	g.Member.Model.SealedKey = p.spec.SealedKey
	p.startGroup(g, producer.RunningGroup{Cursor: c})
}

// startGroup starts a child that outlives this run and reports to the producer by its id.
func (p *run) startGroup(g rollout.GroupSpec, r producer.RunningGroup) {
	now := workflow.Now(p.ctx)
	r.ID, r.Left, r.StartedAt, r.ReportedAt = g.ID, g.Size, now, now
	p.state.Running = append(p.state.Running, r)
	g.Member.Owner, g.ReportTo = p.spec.Owner, producer.WorkflowID(p.spec.ID)

	options := workflow.ChildWorkflowOptions{
		WorkflowID:            rollout.GroupWorkflowID(g.ID),
		WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		ParentClosePolicy:     enumspb.PARENT_CLOSE_POLICY_ABANDON,
		StaticSummary:         fmt.Sprintf("%d rollouts for producer %s", g.Size, p.spec.ID),
	}
	if p.spec.Owner != "" {
		options.TypedSearchAttributes = temporal.NewSearchAttributes(
			p.keys.Owner.ValueSet(searchattr.Keyword(p.spec.Owner)),
		)
	}

	p.starting++
	child := workflow.ExecuteChildWorkflow(workflow.WithChildOptions(p.ctx, options), rollout.GroupWorkflowName, g)
	workflow.Go(p.ctx, func(ctx workflow.Context) { p.confirm(ctx, g.ID, child) })
}

// confirm waits until a group has started. A running workflow of that id is the group itself, started by an
// earlier run of the producer.
func (p *run) confirm(ctx workflow.Context, id string, child workflow.ChildWorkflowFuture) {
	err := child.GetChildWorkflowExecution().Get(ctx, nil)
	p.starting--
	p.changed = true

	var already *temporal.ChildWorkflowExecutionAlreadyStartedError
	if err != nil && !errors.As(err, &already) {
		p.report(rollout.GroupReport{GroupID: id, Outcome: rollout.GroupFailed, Lost: true, Error: err.Error()})
		return
	}

	if err != nil {
		p.stale(id)
		return
	}

	if p.abort != "" {
		p.abortGroup(ctx, id)
	}
}
