package workflows

import (
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/rolloutd/rolloutd/activities"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

const (
	// abortTimeout bounds AbortAgent, and agentEndGrace what RunAgent then takes to notice and to save the transcript.
	abortTimeout  = 30 * time.Second
	agentEndGrace = 30 * time.Second
)

// cause is why work is to end early. The zero value: it is not.
type cause struct {
	aborted bool   // by a signal or a cancellation
	overdue bool   // the rollout's own bound ran out
	reason  string // for people
}

func (c *cause) set() bool { return c.aborted || c.overdue }

// listen receives what ends the rollout early, and progress, until the workflow ends. One coroutine waits for all of them: each takes a goroutine of its own, for
// as long as the rollout is in flight. A cancellation is an abort. Operators send signals by hand: a payload that does not decode must not block the
// next one, and an undecodable abort is an abort.
func (r *run) listen(ctx, started workflow.Context) {
	aborts := workflow.GetSignalChannel(ctx, rollout.SignalAbort)
	progress := workflow.GetSignalChannel(ctx, rollout.SignalTurns)
	sawCancellation, sawBound := false, false
	cancelled := func() bool { return !sawCancellation && started.Err() != nil }
	overdue := func() bool { return !sawBound && r.bound != nil && r.bound.IsReady() }
	changed := func() bool { return aborts.Len() > 0 || progress.Len() > 0 || cancelled() || overdue() }
	for workflow.Await(ctx, changed) == nil { // errs only when ctx is cancelled: never
		switch {
		case aborts.Len() > 0:
			var abort rollout.Abort
			_ = aborts.ReceiveAsync(&abort) // false: it does not decode
			r.end(ctx, cause{aborted: true, reason: reasonOf(abort)})
		case progress.Len() > 0:
			var p rollout.Progress
			if progress.ReceiveAsync(&p) {
				r.progress(p)
			}
		case cancelled():
			sawCancellation = true
			r.end(ctx, cause{aborted: true, reason: "the workflow was cancelled"})
		default:
			sawBound = true
			r.end(ctx, cause{overdue: true, reason: "the rollout's bound of " + r.spec.Limits.Rollout.String() + " ran out"})
		}
	}
}

// reasonBytes bounds the reason of an abort. Several activities get it, and too large a payload would fail the workflow.
const reasonBytes = 4000

func reasonOf(a rollout.Abort) string {
	if a.Reason == "" {
		return "aborted"
	}
	return cut(a.Reason, reasonBytes)
}

// cut is the beginning of s, of at most n bytes, between characters.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "")
}

// progress records what RunAgent reports. Reports of an earlier attempt are ignored.
func (r *run) progress(p rollout.Progress) {
	if p.Attempt == r.state.Attempt {
		r.state.Turns, r.state.SessionID, r.state.Waiting = p.Turns, p.SessionID, p.Waiting
	}
}

// arm starts the rollout's own deadline, once: with the first sandbox, and short of the time that collecting needs.
func (r *run) arm() {
	if r.bound == nil {
		r.bound = workflow.NewTimerWithOptions(r.ctx, r.spec.Limits.Rollout-r.spec.Limits.Collect, workflow.TimerOptions{Summary: "bound of the rollout"})
	}
}

// end has the phase under way end early. The first cause stays.
func (r *run) end(ctx workflow.Context, c cause) {
	switch {
	case r.cause.set():
		return
	case r.finished:
		r.late = c
		return
	}
	r.cause = c
	if r.stop == nil {
		return // between phases; the next one is not begun
	}
	if r.state.Phase != rollout.PhaseAgent {
		r.stop()
		return
	}
	stop := r.stop // of this phase, whatever runs when AbortAgent is back
	workflow.Go(ctx, func(ctx workflow.Context) { r.endAgent(ctx, c, stop) })
}

// endAgent stops the agent from the side: RunAgent then returns by itself, with the transcript saved. Its context is cancelled
// only where that does not come about, for it would drop the activity without an answer.
func (r *run) endAgent(ctx workflow.Context, c cause, stop workflow.CancelFunc) {
	in := activities.AbortInput{Target: r.current.target, Agent: r.spec.Agent, Reason: c.reason}
	err := workflow.ExecuteActivity(r.onHost(ctx, step{timeout: abortTimeout, summary: c.reason}), r.acts.AbortAgent, in).Get(ctx, nil)
	if err == nil {
		_, _ = workflow.AwaitWithTimeout(ctx, agentEndGrace, func() bool { return r.state.Phase != rollout.PhaseAgent })
	}
	stop()
}
