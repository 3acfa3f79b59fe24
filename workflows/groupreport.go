package workflows

import (
	"go.temporal.io/sdk/workflow"

	"github.com/rolloutd/rolloutd/activities"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// loaded returns the specification with its member, loaded from the store if it is stored there.
func loaded(ctx workflow.Context, spec rollout.GroupSpec) (rollout.GroupSpec, error) {
	if spec.From == nil {
		return spec, nil
	}

	work, _ := workflow.NewDisconnectedContext(ctx)
	work = workflow.WithLocalActivityOptions(work, workflow.LocalActivityOptions{
		StartToCloseTimeout: composeTry, ScheduleToCloseTimeout: composeTimeout, RetryPolicy: composeRetries(),
	})

	var (
		acts   *activities.Activities
		member rollout.Spec
	)
	if err := workflow.ExecuteLocalActivity(work, acts.LoadTask, *spec.From).Get(work, &member); err != nil {
		return spec, asFault(err)
	}

	member.Owner, member.Model.SealedKey = spec.Member.Owner, spec.Member.Model.SealedKey
	spec.Member = member

	return spec, nil
}

// report sends the number of unfinished rollouts to the producer after each change. Changes during a report
// are sent together.
func (g *group) report(ctx workflow.Context) {
	left := g.spec.Size

	for {
		if err := workflow.Await(ctx, func() bool { return g.state.Size-g.state.Finished() != left }); err != nil {
			return
		}

		if left = g.state.Size - g.state.Finished(); left == 0 {
			// the last report follows
			return
		}

		g.send(ctx, g.state.Report())
	}
}

// lastReport reports the end of the group.
func (g *group) lastReport() { g.send(g.ctx, g.state.Report()) }

// send blocks the coroutine of ctx until the producer has the report.
func (g *group) send(ctx workflow.Context, r rollout.GroupReport) {
	r.Error = cut(r.Error, reasonBytes)

	err := workflow.SignalExternalWorkflow(ctx, g.spec.ReportTo, "", rollout.SignalReport, r).Get(ctx, nil)
	if err != nil {
		g.log.Warn("no report to the producer", "producer", g.spec.ReportTo, "error", err)
	}
}

// reportFailure reports a group that never began to the producer.
func reportFailure(ctx workflow.Context, spec rollout.GroupSpec, why error) {
	if spec.ReportTo == "" {
		return
	}

	r := rollout.GroupReport{GroupID: spec.ID, Outcome: rollout.GroupFailed, Error: cut(why.Error(), reasonBytes)}
	if err := workflow.SignalExternalWorkflow(ctx, spec.ReportTo, "", rollout.SignalReport, r).
		Get(ctx, nil); err != nil {
		workflow.GetLogger(ctx).Warn("no report to the producer", "producer", spec.ReportTo, "error", err)
	}
}
