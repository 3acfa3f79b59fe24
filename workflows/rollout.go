package workflows

import (
	"strconv"
	"time"

	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/rolloutd/rolloutd/activities"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/temporalx/failure"
	"github.com/rolloutd/rolloutd/internal/temporalx/searchattr"
	"github.com/rolloutd/rolloutd/workflows/producer"
)

// retryPause, multiplied by the attempt's number, is the pause before the next attempt.
const retryPause = 2 * time.Second

// Register registers all workflows.
func Register(w worker.WorkflowRegistry) {
	pinned := workflow.VersioningBehaviorPinned
	w.RegisterWorkflowWithOptions(RolloutWorkflow, workflow.RegisterOptions{
		Name:               rollout.WorkflowName,
		VersioningBehavior: pinned,
	})
	w.RegisterWorkflowWithOptions(GroupWorkflow, workflow.RegisterOptions{
		Name:               rollout.GroupWorkflowName,
		VersioningBehavior: pinned,
	})
	w.RegisterWorkflowWithOptions(DeliveryWorkflow, workflow.RegisterOptions{
		Name:               rollout.DeliveryWorkflowName,
		VersioningBehavior: pinned,
	})
	w.RegisterWorkflowWithOptions(RegradeWorkflow, workflow.RegisterOptions{
		Name:               rollout.RegradeWorkflowName,
		VersioningBehavior: pinned,
	})
	producer.Register(w)
	RegisterPool(w)
}

// RolloutWorkflow runs one rollout to its end and returns the reference of its result. It fails only if the
// spec is Invalid or no result could be stored; every other failure is an outcome.
func RolloutWorkflow(ctx workflow.Context, spec rollout.Spec) (rollout.Summary, error) {
	r, err := setup(ctx, spec)
	if err != nil {
		return rollout.Summary{}, failure.ToTemporal(err)
	}

	return r.run()
}

// run is one rollout.
type run struct {
	spec rollout.Spec

	// the context of all work: it outlives a cancellation of the workflow
	ctx  workflow.Context
	log  log.Logger
	keys searchattr.Keys

	// nil: only to name the methods
	acts  *activities.Activities
	state rollout.State

	current  *attempt
	attempts []rollout.Attempt

	// why the rollout ends early
	cause cause

	// a cause that arrived while the result was being collected
	late cause

	// ends the current phase; nil between phases
	stop workflow.CancelFunc

	// timer of the rollout's deadline; nil: not running
	bound workflow.Future

	// it was started with its search attributes; clients of earlier builds leave them to the workflow
	labelled bool

	// score of a client, for an external verifier; nil: none yet
	score *rollout.Score

	// the steps of the task before the current one, and their model calls
	ran   []rollout.StepResult
	turns int

	// the last attempt is being collected: an abort has no effect
	finished bool
}

// setup validates the specification, begins to receive signals and sets the search attributes.
func setup(ctx workflow.Context, spec rollout.Spec) (*run, error) {
	// a client in another language may send only some of them
	spec.Limits = spec.FilledLimits()
	if err := spec.Validate(); err != nil {
		return nil, err
	}

	work, _ := workflow.NewDisconnectedContext(ctx)
	r := &run{
		spec: spec, ctx: work, keys: searchattr.Typed(),
		log: log.With(workflow.GetLogger(ctx), "rollout", spec.ID),
		state: rollout.State{
			ID:        spec.ID,
			TaskID:    spec.Task.ID,
			GroupID:   spec.GroupID,
			Owner:     spec.Owner,
			Phase:     rollout.PhaseQueued,
			StartedAt: workflow.Now(ctx),
		},
	}

	err := workflow.SetQueryHandlerWithOptions(ctx, rollout.QueryState,
		func() (rollout.State, error) { return r.state, nil },
		workflow.QueryHandlerOptions{Description: "Where the rollout stands"})
	if err != nil {
		return nil, err
	}

	if err := r.acceptScores(ctx); err != nil {
		return nil, err
	}

	if _, r.labelled = workflow.GetTypedSearchAttributes(ctx).GetKeyword(r.keys.Phase); !r.labelled {
		r.label()
	}

	workflow.Go(work, func(work workflow.Context) { r.listen(work, ctx) })

	return r, nil
}

// run runs attempts until one ends the rollout.
func (r *run) run() (rollout.Summary, error) {
	r.log.Info("rollout started", "task", r.spec.Task.ID, "model", r.spec.Model.Name, "agent", r.spec.Agent)

	var a *attempt

	for {
		a = r.attempt(a)
		if (a.decision.next || a.decision.retry) && !r.cause.set() {
			// the deadline, if it passed while the attempt was graded
			r.cause = r.late
		}

		switch {
		case a.decision.next:
		case a.decision.retry:
			r.log.Warn("attempt lost to infrastructure", "attempt", a.target.Attempt, "error", a.decision.text)
			r.pause(a.try)
		default:
			return r.finish(a)
		}

		if r.cause.set() {
			return r.finish(r.reclassify(a))
		}
	}
}

// pause waits before the next attempt, unless the rollout ends early.
func (r *run) pause(n int) {
	// fails only if r.ctx is canceled, which never happens
	_, _ = workflow.AwaitWithTimeout(r.ctx, time.Duration(n)*retryPause, r.cause.set)
}

// finish records the final outcome and the result's reference.
func (r *run) finish(a *attempt) (rollout.Summary, error) {
	if a.result.Key == "" {
		if err := r.compose(a); err != nil {
			return rollout.Summary{}, err
		}
	}

	now := workflow.Now(r.ctx)
	r.state.Outcome = a.decision.outcome
	r.state.Reward = r.reward(a)
	r.state.Error = a.decision.text
	r.state.FinishedAt = &now
	r.enter(rollout.PhaseDone)
	r.log.Info("rollout ended", "outcome", a.decision.outcome, "reward", rewardText(r.reward(a)),
		"attempts", a.target.Attempt, "error", a.decision.text)

	return rollout.Summary{
		ID: r.spec.ID, Outcome: a.decision.outcome, Reward: r.reward(a), Error: a.decision.text, Result: a.result,
	}, nil
}

// rewardText is a reward for the log.
func rewardText(reward *float64) string {
	if reward == nil {
		return "none"
	}

	return strconv.FormatFloat(*reward, 'g', -1, 64)
}

// tries is how often an activity may fail within its deadline. It bounds retries of failures that are a bug
// of rolloutd.
const tries = 20

// retryPolicy is the retry policy of every activity except CreateSandbox.
func retryPolicy() *temporal.RetryPolicy {
	p := uncounted()
	p.MaximumAttempts = tries

	return p
}

// uncounted is a retry policy without a limit, for an activity that counts its own tries.
func uncounted() *temporal.RetryPolicy {
	return &temporal.RetryPolicy{MaximumInterval: 15 * time.Second}
}
