package activities

import (
	"context"
	"strconv"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/rolloutd/rolloutd/internal/eventlog"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/store"
	"github.com/rolloutd/rolloutd/internal/text"
)

// phase logs the start of a phase of the attempt, once.
func (a *Activities) phase(t Target, p rollout.Phase) { a.phaseAt(t, p, time.Now()) }

func (a *Activities) phaseAt(t Target, p rollout.Phase, at time.Time) {
	a.o.Events.Of(t).Append(rollout.EventPhase, "phase/"+string(p), rollout.PhaseEvent{
		Phase:   p,
		Attempt: t.Attempt,
		Start:   at,
	})
}

// logPlacement logs the phases before the sandbox existed. The first event of an attempt is its wait for a host.
func (a *Activities) logPlacement(ctx context.Context, t Target, began time.Time) {
	queued := began
	if activity.IsActivity(ctx) {
		queued = activity.GetInfo(ctx).ScheduledTime
	}

	a.log.Info("attempt started", "rollout", t.RolloutID, "attempt", t.Attempt, "sandbox", t.SandboxID(),
		"queued_s", began.Sub(queued).Seconds())
	a.phaseAt(t, rollout.PhaseQueued, queued)
	a.phaseAt(t, rollout.PhaseCreating, began)
}

// rewardOf is a reward as a log attribute.
func rewardOf(r *float64) any {
	if r == nil {
		return "none"
	}

	return *r
}

// attemptEnded logs how the attempt ended.
func (a *Activities) attemptEnded(ctx context.Context, in CollectInput) error {
	causes, err := a.causes(ctx, in.Target)
	if err != nil {
		return err
	}

	a.log.Info("attempt ended", "rollout", in.RolloutID, "attempt", in.Attempt, "outcome", in.Head.Outcome,
		"reward", rewardOf(in.Head.Reward), "error", in.Head.Error)
	log := a.o.Events.Of(in.Target)

	e := rollout.AttemptEvent{
		Stamp:          log.Stamp(),
		Outcome:        in.Head.Outcome,
		Error:          in.Head.Error,
		ResourceCauses: causes,
	}
	if n := len(in.Head.Attempts); n > 0 {
		last := in.Head.Attempts[n-1]
		e.SandboxID, e.Host, e.ErrorKind = last.SandboxID, last.Host, last.ErrorKind
	}

	log.Append(rollout.EventAttempt, "attempt", e)

	return nil
}

// maxCommand bounds a command in an event, in characters.
const maxCommand = 1000

// command logs the start of a command of the task or, with a result, its end.
func command(log *eventlog.Log, stage string, number int, cmd string, res *rollout.CommandResult) {
	key := stage + "/" + strconv.Itoa(number)
	cmd = text.HeadUTF8(cmd, maxCommand)

	if res != nil {
		short := *res
		key, short.Cmd = key+"/end", cmd
		res = &short
	}

	log.Append(rollout.EventCommand, key, rollout.CommandEvent{
		Stamp:   log.Stamp(),
		Stage:   stage,
		Number:  number,
		Command: cmd,
		Result:  res,
	})
}

// storeEvents moves the log of an ended attempt from this host to the store.
func (a *Activities) storeEvents(ctx context.Context, t Target) error {
	log, err := a.o.Events.Find(t)
	if fault.Is(err, fault.NotFound) {
		return nil
	}

	if _, err = a.o.Store.Put(ctx, store.AttemptKey(t.RolloutID, t.Attempt, store.Events), log.Reader()); err != nil {
		return err
	}
	// readers find it in the store
	return a.o.Events.Remove(t)
}
