package producer

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/rolloutd/rolloutd/internal/producer"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/temporalx/searchattr"
	"github.com/rolloutd/rolloutd/internal/text"
)

// maxReason bounds the reason of an abort and the error of a group, in bytes.
const maxReason = 2000

// listen receives signals until the workflow ends. Operators send signals by hand: a change that does not
// decode is ignored, an abort that does not decode is an abort.
func (p *run) listen(ctx workflow.Context) {
	cancelled := ctx.Done()
	workflow.Go(p.ctx, func(ctx workflow.Context) {
		cancelled.Receive(ctx, nil)
		p.abortGroups("the workflow was cancelled")
	})
	workflow.Go(p.ctx, func(ctx workflow.Context) {
		aborts := workflow.GetSignalChannel(ctx, rollout.SignalAbort)

		// fails only if ctx is canceled, which never happens
		for workflow.Await(ctx, func() bool { return aborts.Len() > 0 }) == nil {
			var abort rollout.Abort
			// false: the payload does not decode
			_ = aborts.ReceiveAsync(&abort)
			p.abortGroups(text.Head(abort.Reason, maxReason))
		}
	})
	workflow.Go(p.ctx, func(ctx workflow.Context) {
		changes := workflow.GetSignalChannel(ctx, producer.SignalChange)

		for {
			var c producer.Change
			changes.Receive(ctx, &c)
			p.change(c)
		}
	})
	workflow.Go(p.ctx, func(ctx workflow.Context) {
		reports := workflow.GetSignalChannel(ctx, rollout.SignalReport)

		for {
			var r rollout.GroupReport
			reports.Receive(ctx, &r)
			p.report(r)
		}
	})
}

// change applies an operator's change. Invalid bounds are ignored, because the edge has refused them.
func (p *run) change(c producer.Change) {
	if p.finishing {
		return
	}

	if b := c.Apply(p.state.Bounds); b.Validate() == nil {
		p.state.Bounds = b
	}

	switch {
	case p.state.Phase == producer.Aborting:
	case c.Stop:
		p.enter(producer.Draining)
	case c.Paused == nil || p.state.Phase == producer.Draining:
	case *c.Paused:
		p.enter(producer.Paused)
	default:
		p.enter(producer.Running)
	}

	p.changed = true
}

func (p *run) enter(phase producer.Phase) {
	p.state.Phase = phase
	searchattr.Upsert(p.ctx, p.log, p.keys.Phase.ValueSet(string(phase)))
}

// abortGroups aborts the running groups. The first reason is kept.
func (p *run) abortGroups(reason string) {
	if p.finishing || p.state.Phase == producer.Aborting {
		return
	}

	if reason == "" {
		reason = "aborted"
	}

	p.state.Error, p.changed = reason, true
	p.enter(producer.Aborting)
	p.abortAll(reason)
}

func (p *run) abortAll(reason string) {
	p.abort = reason
	for i := range p.state.Running {
		id := p.state.Running[i].ID
		workflow.Go(p.ctx, func(ctx workflow.Context) { p.abortGroup(ctx, id) })
	}
}

// abortGroup aborts one group. If it has ended meanwhile, its report or the next lookup shows that.
func (p *run) abortGroup(ctx workflow.Context, id string) {
	err := workflow.SignalExternalWorkflow(ctx, rollout.GroupWorkflowID(id), "", rollout.SignalAbort, rollout.Abort{Reason: p.abort}).
		Get(ctx, nil)
	if err != nil {
		p.log.Warn("group not aborted", "group", id, "error", err)
		p.stale(id)
	}
}

// report handles a report of a group. A group that has ended is put into the outbox or counted as not delivered.
func (p *run) report(r rollout.GroupReport) {
	i := p.state.Find(r.GroupID)
	if i < 0 {
		// it was reported before
		return
	}

	p.changed = true

	g := &p.state.Running[i]
	if r.Outcome == "" {
		g.Left, g.ReportedAt = min(g.Left, max(r.Left, 0)), workflow.Now(p.ctx)
		return
	}

	ended := *g

	p.state.Running = append(p.state.Running[:i:i], p.state.Running[i+1:]...)
	p.state.Counts.Replaced += int64(r.Replaced)
	p.settle(ended, r)
}

// stale makes the next lookup include a group.
func (p *run) stale(id string) {
	if i := p.state.Find(id); i >= 0 {
		p.state.Running[i].ReportedAt = time.Time{}
		p.changed = true
	}
}

// maxTries bounds the groups that are started for one place in the sequence.
const maxTries = 3

// settle filters a group that has ended, or repeats its task.
func (p *run) settle(g producer.RunningGroup, r rollout.GroupReport) {
	counts := &p.state.Counts
	switch {
	case g.Eval:
		p.evaluated(r)
	case r.Outcome == rollout.GroupAborted:
		counts.Aborted++
	case r.Lost && g.Cursor.Try+1 < maxTries && p.abort == "":
		counts.Again++
		p.state.Again = append(p.state.Again, producer.Cursor{Number: g.Cursor.Number, Try: g.Cursor.Try + 1})
	case len(r.Rewards) == 0:
		counts.Failed++

		p.log.Warn("group without a reward", "group", g.ID, "error", r.Error)
	default:
		p.filter(g, r.Rewards)
	}
}

// filter puts a group into the outbox, or counts the reason why it is not delivered.
func (p *run) filter(g producer.RunningGroup, rewards []float64) {
	why := ""

	switch f := p.spec.Filter; {
	case len(rewards) < f.MinRollouts:
		why = producer.FilteredTooFew
	case f.EqualScores && len(rewards) > 1 && equal(rewards):
		why = producer.FilteredEqualScores
	}

	if why != "" {
		p.filtered(why)
		return
	}

	p.state.Outbox = append(p.state.Outbox, producer.Finished{GroupID: g.ID, Rollouts: len(rewards)})
}

func (p *run) filtered(why string) {
	if p.state.Counts.Filtered == nil {
		p.state.Counts.Filtered = map[string]int{}
	}

	p.state.Counts.Filtered[why]++
}

func equal(all []float64) bool {
	for _, v := range all {
		if v != all[0] {
			return false
		}
	}

	return true
}
