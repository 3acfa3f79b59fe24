package workflows

import (
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/rolloutd/rolloutd/activities"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

const (
	// abortTimeout bounds AbortAgent. agentEndGrace bounds the time in which RunAgent then notices and
	// saves the transcript.
	abortTimeout  = 30 * time.Second
	agentEndGrace = 30 * time.Second
)

// cause is why the rollout ends early. The zero value is no cause.
type cause struct {
	// by a signal or a cancellation
	aborted bool

	// the rollout's deadline has passed
	overdue bool

	// reason for people
	reason string
}

func (c *cause) set() bool { return c.aborted || c.overdue }

// listen receives aborts, cancellations, the deadline and progress until the workflow ends. One coroutine
// waits for all of them, because each coroutine costs a goroutine for the whole rollout. A cancellation is
// an abort. Operators send signals by hand: a payload that does not decode must not block the next one, and
// an undecodable abort is an abort.
func (r *run) listen(ctx, started workflow.Context) {
	aborts := workflow.GetSignalChannel(ctx, rollout.SignalAbort)
	progress := workflow.GetSignalChannel(ctx, rollout.SignalTurns)
	sawCancellation, sawBound := false, false
	cancelled := func() bool { return !sawCancellation && started.Err() != nil }
	overdue := func() bool { return !sawBound && r.bound != nil && r.bound.IsReady() }
	changed := func() bool { return aborts.Len() > 0 || progress.Len() > 0 || cancelled() || overdue() }
	// fails only if ctx is canceled, which never happens
	for workflow.Await(ctx, changed) == nil {
		switch {
		case aborts.Len() > 0:
			var abort rollout.Abort
			// false: the payload does not decode
			_ = aborts.ReceiveAsync(&abort)
			r.endPhase(ctx, cause{aborted: true, reason: reasonOf(abort)})
		case progress.Len() > 0:
			var p rollout.Progress
			if progress.ReceiveAsync(&p) {
				r.progress(p)
			}
		case cancelled():
			sawCancellation = true

			r.endPhase(ctx, cause{aborted: true, reason: "the workflow was cancelled"})
		default:
			sawBound = true

			r.endPhase(ctx, cause{
				overdue: true,
				reason:  "the rollout's bound of " + r.spec.Limits.Rollout.String() + " ran out",
			})
		}
	}
}

// reasonBytes bounds the reason of an abort, in bytes. It is an input of several activities, and a too
// large payload would fail the workflow.
const reasonBytes = 4000

func reasonOf(a rollout.Abort) string {
	if a.Reason == "" {
		return "aborted"
	}

	return cut(a.Reason, reasonBytes)
}

// cut shortens s to at most n bytes, at a character boundary.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}

	return strings.ToValidUTF8(s[:n], "")
}

// progress records a report of RunAgent. Reports of an earlier attempt are ignored.
func (r *run) progress(p rollout.Progress) {
	if p.Attempt == r.state.Attempt {
		r.state.Turns, r.state.SessionID, r.state.Waiting = p.Turns, p.SessionID, p.Waiting
	}
}

// arm starts the rollout's deadline, once, with the first sandbox. It leaves the time that collecting needs.
func (r *run) arm() {
	if r.bound == nil {
		r.bound = workflow.NewTimerWithOptions(
			r.ctx,
			r.spec.Limits.Rollout-r.spec.Limits.Collect,
			workflow.TimerOptions{Summary: "bound of the rollout"},
		)
	}
}

// endPhase ends the current phase early. The first cause is kept.
func (r *run) endPhase(ctx workflow.Context, c cause) {
	switch {
	case r.cause.set():
		return
	case r.finished, c.overdue && r.gradesOverdue():
		r.late = c
		return
	}

	r.cause = c
	if r.stop == nil {
		// between phases; no further phase begins
		return
	}

	if r.state.Phase != rollout.PhaseAgent {
		r.stop()
		return
	}
	// the stop of this phase: another one may run when AbortAgent has returned
	stop := r.stop

	workflow.Go(ctx, func(ctx workflow.Context) { r.endAgent(ctx, c, stop) })
}

// gradesOverdue reports whether the current attempt is graded after the rollout's deadline: how long its agent worked, and how
// long its verifier runs, is the policy's choice, which could so avoid a 0. The limits of the verifier bound the grading. It was
// ended in runs of an earlier build.
func (r *run) gradesOverdue() bool {
	if r.current == nil || r.current.agent == nil {
		return false
	}

	return workflow.GetVersion(r.ctx, "grade-overdue", workflow.DefaultVersion, 1) != workflow.DefaultVersion
}

// endAgent stops the agent by AbortAgent: RunAgent then saves the transcript and returns by itself. Only if
// it does not return, its context is canceled, which loses the activity's result.
func (r *run) endAgent(ctx workflow.Context, c cause, stop workflow.CancelFunc) {
	in := activities.AbortInput{Target: r.current.target, Agent: r.spec.Agent, Reason: c.reason}

	err := workflow.ExecuteActivity(r.onHost(ctx, step{
		timeout: abortTimeout,
		summary: c.reason,
	}), r.acts.AbortAgent, in).Get(ctx, nil)
	if err == nil {
		_, _ = workflow.AwaitWithTimeout(ctx, agentEndGrace, func() bool { return r.state.Phase != rollout.PhaseAgent })
	}

	stop()
}
