package workflows

import (
	"errors"
	"fmt"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/temporalx/searchattr"
)

// member runs rollouts for one member until one is not lost to infrastructure, or no replacement is left.
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
		g.stopIfTaskIsBroken(ctx)

		return
	}
}

// rollout runs one rollout as a child workflow. again reports that the infrastructure lost it, so that a
// replacement may succeed.
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

// childOptions give the child the same id, attributes and summary as a rollout that a client starts.
func (g *group) childOptions(ctx workflow.Context, spec rollout.Spec) workflow.Context {
	options := workflow.ChildWorkflowOptions{
		WorkflowID:            rollout.WorkflowID(spec.ID),
		WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		ParentClosePolicy:     enumspb.PARENT_CLOSE_POLICY_REQUEST_CANCEL,
		StaticSummary:         fmt.Sprintf("%s on %s, group %s", spec.Agent, spec.Model.Name, g.spec.ID),
	}
	options.TypedSearchAttributes = temporal.NewSearchAttributes(g.keys.AtStart(spec)...)
	options.Memo = searchattr.Memo(spec)

	return workflow.WithChildOptions(ctx, options)
}

// brokenAfter is how many members must fail in the same way, and none in another, before the group is ended.
const brokenAfter = 2

// stopIfTaskIsBroken ends the group if its task cannot be set up or graded, because every further member
// would fail as well.
func (g *group) stopIfTaskIsBroken(ctx workflow.Context) {
	var first *rollout.Member

	ended := 0

	for i := range g.state.Members {
		m := &g.state.Members[i]
		switch {
		case m.Outcome == "":
			continue
		case m.Outcome != rollout.SetupFailed && m.Outcome != rollout.VerifierFailed,
			first != nil && m.Outcome != first.Outcome:
			return
		case first == nil:
			first = m
		}

		ended++
	}

	if ended >= brokenAfter && ended < g.spec.Size {
		g.abortRollouts(
			ctx,
			ending{reason: fmt.Sprintf("the first %d members ended as %s: %s", ended, first.Outcome, first.Error)},
		)
	}
}

// listen ends the group at a signal "abort" and at a cancellation of the workflow. An abort that does not
// decode is an abort.
func (g *group) listen(ctx workflow.Context, cancelled workflow.Channel) {
	workflow.Go(ctx, func(ctx workflow.Context) {
		cancelled.Receive(ctx, nil)
		g.abortRollouts(ctx, ending{aborted: true, reason: "the workflow was cancelled"})
	})
	aborts := workflow.GetSignalChannel(ctx, rollout.SignalAbort)

	// fails only if ctx is canceled, which never happens
	for workflow.Await(ctx, func() bool { return aborts.Len() > 0 }) == nil {
		var abort rollout.Abort
		// false: the payload does not decode
		_ = aborts.ReceiveAsync(&abort)
		g.abortRollouts(ctx, ending{aborted: true, reason: reasonOf(abort)})
	}
}

// arm starts the group's deadline.
func (g *group) arm() {
	if g.spec.Deadline == 0 {
		return
	}

	timer := workflow.NewTimerWithOptions(
		g.ctx,
		g.spec.Deadline,
		workflow.TimerOptions{Summary: "deadline of the group"},
	)
	workflow.Go(g.ctx, func(ctx workflow.Context) {
		if timer.Get(ctx, nil) == nil {
			g.abortRollouts(ctx, ending{reason: "the group's deadline of " + g.spec.Deadline.String() + " passed"})
		}
	})
}

// abortRollouts aborts the running rollouts and starts no others. The first reason is kept.
func (g *group) abortRollouts(ctx workflow.Context, why ending) {
	if g.ending != nil {
		return
	}

	g.ending = &why
	// in order: workflows are deterministic
	for i := range g.spec.Size {
		if child, ok := g.children[i]; ok {
			workflow.Go(ctx, func(ctx workflow.Context) { g.abort(ctx, i, child) })
		}
	}
}

// abort aborts one rollout. It is no error if the rollout has ended meanwhile.
func (g *group) abort(ctx workflow.Context, index int, child workflow.ChildWorkflowFuture) {
	err := child.SignalChildWorkflow(ctx, rollout.SignalAbort, rollout.Abort{Reason: g.ending.reason}).Get(ctx, nil)

	var unknown *temporal.UnknownExternalWorkflowExecutionError
	if err != nil && !errors.As(err, &unknown) {
		g.log.Warn("rollout not aborted", "rollout", g.state.Members[index].RolloutID, "error", err)
	}
}
