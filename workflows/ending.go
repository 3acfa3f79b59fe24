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

// listen receives signals until the workflow ends. A cancellation is an abort. Operators send signals by hand: a payload that does not
// decode must not block the next one, and an undecodable abort is an abort.
func (r *run) listen(ctx workflow.Context, cancelled workflow.Channel) {
	aborts := workflow.GetSignalChannel(ctx, rollout.SignalAbort)
	progress := workflow.GetSignalChannel(ctx, rollout.SignalTurns)
	selector := workflow.NewSelector(ctx)
	selector.AddReceive(aborts, func(c workflow.ReceiveChannel, _ bool) {
		var abort rollout.Abort
		_ = c.ReceiveAsync(&abort) // false: it does not decode
		r.end(ctx, cause{aborted: true, reason: reasonOf(abort)})
	})
	selector.AddReceive(progress, func(c workflow.ReceiveChannel, _ bool) {
		var p rollout.Progress
		if c.ReceiveAsync(&p) {
			r.progress(p)
		}
	})
	workflow.Go(ctx, func(ctx workflow.Context) { // not in the selector: a closed channel would always be ready
		cancelled.Receive(ctx, nil)
		r.end(ctx, cause{aborted: true, reason: "the workflow was cancelled"})
	})
	for {
		selector.Select(ctx)
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
	if r.armed {
		return
	}
	r.armed = true
	bound := r.spec.Limits.Rollout
	timer := workflow.NewTimerWithOptions(r.ctx, bound-r.spec.Limits.Collect, workflow.TimerOptions{Summary: "bound of the rollout"})
	workflow.Go(r.ctx, func(ctx workflow.Context) {
		if timer.Get(ctx, nil) == nil {
			r.end(ctx, cause{overdue: true, reason: "the rollout's bound of " + bound.String() + " ran out"})
		}
	})
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
