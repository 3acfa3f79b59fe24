package workflows

import (
	"errors"
	"fmt"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// member runs rollouts for one member until one ends otherwise than lost to infrastructure, or none may replace it.
func (g *group) member(ctx workflow.Context, index int) {
	m := &g.state.Members[index]
	for n := 0; ; n++ {
		m.RolloutID = rollout.MemberID(g.spec.ID, index, n)
		end, again := g.rollout(ctx, index, n)
		if again && g.ending == nil && g.state.Replaced < g.spec.MaxReplacements {
			g.log.Warn("rollout lost to infrastructure, replaced", "rollout", m.RolloutID, "error", end.Error)
			m.Lost = append(m.Lost, m.RolloutID)
			g.state.Replaced++
			continue
		}
		m.Outcome, m.Reward, m.Error = end.Outcome, end.Reward, cut(end.Error, reasonBytes)
		g.describe()
		g.stopWhenHopeless(ctx)
		return
	}
}

// rollout runs one rollout as a child workflow. again says that infrastructure lost it, so that another one may end otherwise.
func (g *group) rollout(ctx workflow.Context, index, replacement int) (end rollout.Summary, again bool) {
	if g.ending != nil {
		return rollout.Summary{Outcome: rollout.Aborted, Error: g.ending.reason}, false
	}
	spec := g.spec.MemberSpec(index, replacement)
	child := workflow.ExecuteChildWorkflow(g.childOptions(ctx, spec), rollout.WorkflowName, spec)
	g.children[index] = child
	err := child.Get(ctx, &end)
	delete(g.children, index)
	if err == nil {
		return end, end.Outcome == rollout.InfraFailed
	}
	end = rollout.Summary{Outcome: rollout.InfraFailed, Error: asFault(err).Error()}
	return end, !fault.Is(asFault(err), fault.Invalid)
}

// childOptions give the child the id, attributes and summary that a rollout has when a client starts it.
func (g *group) childOptions(ctx workflow.Context, spec rollout.Spec) workflow.Context {
	options := workflow.ChildWorkflowOptions{
		WorkflowID: rollout.WorkflowID(spec.ID), WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		ParentClosePolicy: enumspb.PARENT_CLOSE_POLICY_REQUEST_CANCEL, StaticSummary: fmt.Sprintf("%s on %s, group %s", spec.Agent, spec.Model.Name, g.spec.ID),
	}
	options.TypedSearchAttributes = temporal.NewSearchAttributes(g.keys.AtStart(spec)...)
	return workflow.WithChildOptions(ctx, options)
}

// hopelessAfter is how many members must fail in the same way, and none end otherwise, until the group is given up.
const hopelessAfter = 2

// stopWhenHopeless ends the group when its task cannot be set up or graded: every further member would cost the same and fail.
func (g *group) stopWhenHopeless(ctx workflow.Context) {
	var first *rollout.Member
	ended := 0
	for i := range g.state.Members {
		m := &g.state.Members[i]
		switch {
		case m.Outcome == "":
			continue
		case m.Outcome != rollout.SetupFailed && m.Outcome != rollout.VerifierFailed, first != nil && m.Outcome != first.Outcome:
			return
		case first == nil:
			first = m
		}
		ended++
	}
	if ended >= hopelessAfter && ended < g.spec.Size {
		g.end(ctx, ending{reason: fmt.Sprintf("the first %d members ended as %s: %s", ended, first.Outcome, first.Error)})
	}
}

// listen ends the group at a signal "abort" and at a cancellation of the workflow. An abort that does not decode is an abort.
func (g *group) listen(ctx workflow.Context, cancelled workflow.Channel) {
	workflow.Go(ctx, func(ctx workflow.Context) {
		cancelled.Receive(ctx, nil)
		g.end(ctx, ending{aborted: true, reason: "the workflow was cancelled"})
	})
	aborts := workflow.GetSignalChannel(ctx, rollout.SignalAbort)
	for {
		var abort rollout.Abort
		aborts.Receive(ctx, &abort)
		g.end(ctx, ending{aborted: true, reason: reasonOf(abort)})
	}
}

// arm starts the group's deadline.
func (g *group) arm() {
	if g.spec.Deadline == 0 {
		return
	}
	timer := workflow.NewTimerWithOptions(g.ctx, g.spec.Deadline, workflow.TimerOptions{Summary: "deadline of the group"})
	workflow.Go(g.ctx, func(ctx workflow.Context) {
		if timer.Get(ctx, nil) == nil {
			g.end(ctx, ending{reason: "the group's deadline of " + g.spec.Deadline.String() + " passed"})
		}
	})
}

// end aborts the rollouts that run and starts no other. The first reason stays.
func (g *group) end(ctx workflow.Context, why ending) {
	if g.ending != nil {
		return
	}
	g.ending = &why
	for i := range g.spec.Size { // in order: workflows are deterministic
		if child, ok := g.children[i]; ok {
			workflow.Go(ctx, func(ctx workflow.Context) { g.abort(ctx, i, child) })
		}
	}
}

// abort has one rollout end. One that has ended meanwhile needs no abort.
func (g *group) abort(ctx workflow.Context, index int, child workflow.ChildWorkflowFuture) {
	err := child.SignalChildWorkflow(ctx, rollout.SignalAbort, rollout.Abort{Reason: g.ending.reason}).Get(ctx, nil)
	var unknown *temporal.UnknownExternalWorkflowExecutionError
	if err != nil && !errors.As(err, &unknown) {
		g.log.Warn("rollout not aborted", "rollout", g.state.Members[index].RolloutID, "error", err)
	}
}
