package activities

import (
	"bytes"
	"context"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/store"
)

const (
	saveEvery   = 5 * time.Second  // of the transcript, while it grows
	tellEvery   = 5 * time.Second  // of the workflow, at least
	maxTellings = 200              // in the agent's whole time: each is an event of the workflow's history
	newsTimeout = 10 * time.Second // of one saving or telling, none of which may hold the watch up
)

// news is what RunAgent spread of its progress: the transcript to the store, turns and session to the workflow. None of it is
// worth failing for.
type news struct {
	told   rollout.Progress
	toldAt time.Time
	pause  time.Duration // between tellings

	savedTurns int
	savedAt    time.Time
}

func newNews(in AgentInput) news {
	return news{
		told: rollout.Progress{Attempt: in.Attempt}, pause: max(tellEvery, in.Limits.Agent/maxTellings), savedTurns: -1,
	}
}

// spread tells and saves what has changed, if it is time for it.
func (n *news) spread(ctx context.Context, w *watch) {
	now := w.view.now
	if now.Sub(n.savedAt) >= saveEvery && w.view.route.Turns != n.savedTurns {
		n.save(ctx, w)
	}
	p := rollout.Progress{Attempt: w.in.Attempt, Turns: w.view.route.Turns, SessionID: w.view.agent.SessionID}
	if p == n.told || now.Sub(n.toldAt) < n.pause {
		return
	}
	n.told, n.toldAt = p, now
	ctx, cancel := context.WithTimeout(ctx, newsTimeout)
	defer cancel()
	id := rollout.WorkflowID(w.in.RolloutID)
	if err := w.a.o.Signals.SignalWorkflow(ctx, id, "", rollout.SignalTurns, p); err != nil {
		w.log.WarnContext(ctx, "progress not told", "error", err)
	}
}

// save puts the transcript into the store, and the log of it to where task authors look for it in the sandbox.
func (n *news) save(ctx context.Context, w *watch) {
	n.savedTurns, n.savedAt = w.view.route.Turns, time.Now()
	ctx, cancel := context.WithTimeout(ctx, newsTimeout)
	defer cancel()
	t, err := w.kit.Transcript(ctx, w.sb, w.job())
	if err == nil {
		err = w.a.o.Store.PutJSON(ctx, store.AttemptKey(w.in.RolloutID, w.in.Attempt, store.Transcript), t)
	}
	if err == nil {
		err = w.sb.WriteFile(ctx, rollout.AgentLog, bytes.NewReader(w.kit.Log(t)), 0o644)
	}
	if err != nil && !fault.Is(err, fault.NotFound) { // an agent that was stopped early has none
		w.log.WarnContext(ctx, "transcript not saved", "error", err)
	}
}
