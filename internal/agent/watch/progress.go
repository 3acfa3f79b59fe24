package watch

import (
	"bytes"
	"context"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/store"
)

const (
	saveEvery     = 5 * time.Second  // of the transcript, while it grows
	reportEvery   = 5 * time.Second  // to the workflow, at least
	firstReport   = time.Second      // after the agent is ready, and of its transcript too: the end of one that ends before brings the same
	maxReports    = 200              // in the agent's whole time: each is an event of the workflow's history
	maxUrgent     = 50               // of those that say that the endpoint has begun to fail, which do not wait for their turn
	reportTimeout = 10 * time.Second // of one saving or report: neither may delay the watch

	// Tries to store a transcript, and the pauses between them.
	writeTries            = 6
	firstPause, lastPause = 50 * time.Millisecond, 800 * time.Millisecond
)

// progressReporter makes an agent's progress known: the transcript to the store and the sandbox, turns and session to the
// workflow. Its failures are logged only.
type progressReporter struct {
	reported   rollout.Progress
	reportedAt time.Time
	readyAt    time.Time     // when there was first something to report
	pause      time.Duration // between reports
	urgent     int           // reports that did not wait for it

	savedTurns int
	savedAt    time.Time
}

func newProgressReporter(j *Job) progressReporter {
	return progressReporter{
		reported: rollout.Progress{Attempt: j.Attempt}, pause: max(reportEvery, j.Limits.Agent/maxReports), savedTurns: -1,
	}
}

// report reports and saves what has changed, as far as it is time for it, and returns when it is time for the rest; zero: there
// is no rest.
func (p *progressReporter) report(ctx context.Context, w *watch) (next time.Time) {
	if !w.state.Agent.Ready && w.state.Route.Trouble == "" {
		return time.Time{}
	}
	now := time.Now()
	if p.readyAt.IsZero() {
		p.readyAt, p.savedAt = now, now
	}
	if w.state.Agent.Ready && w.state.Route.Turns != p.savedTurns {
		if next = p.saveDue(); !next.After(now) {
			p.save(ctx, w)
			next = time.Time{}
		}
	}
	current := p.progress(w)
	if current == p.reported {
		return next
	}
	pause, urgent := p.pause, current.Waiting != "" && p.reported.Waiting == "" && p.urgent < maxUrgent
	if urgent {
		pause = reportEvery
	}
	due := p.reportedAt.Add(pause)
	if first := p.readyAt.Add(firstReport); !urgent && due.Before(first) {
		due = first
	}
	if due.After(now) {
		return earlier(next, due)
	}
	if urgent {
		p.urgent++
	}
	p.reported, p.reportedAt = current, now
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	if err := w.Signals.SignalWorkflow(ctx, rollout.WorkflowID(w.job.RolloutID), "", rollout.SignalTurns, current); err != nil {
		w.log.WarnContext(ctx, "progress not reported", "error", err)
	}
	return next
}

// saveDue is when the transcript may be saved next.
func (p *progressReporter) saveDue() time.Time {
	if p.savedAt.IsZero() {
		return p.readyAt.Add(firstReport)
	}
	return p.savedAt.Add(saveEvery)
}

// progress is what there is to report. While the endpoint fails the first reason stays: those of the next tries often differ by a port.
func (p *progressReporter) progress(w *watch) rollout.Progress {
	waiting := w.state.waiting()
	if waiting != "" && p.reported.Waiting != "" {
		waiting = p.reported.Waiting
	}
	return rollout.Progress{Attempt: w.job.Attempt, Turns: w.state.Route.Turns, SessionID: w.state.Agent.SessionID, Waiting: waiting}
}

// save puts the transcript into the store, and its log to where task authors look for it in the sandbox.
func (p *progressReporter) save(ctx context.Context, w *watch) {
	p.savedTurns, p.savedAt = w.state.Route.Turns, time.Now()
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	if err := w.saveTranscript(ctx); err != nil && !fault.Is(err, fault.NotFound) { // an agent that was stopped early has none
		w.log.WarnContext(ctx, "transcript not saved", "error", err)
	}
}

// saveTranscript holds a transcript in memory several times over, so only a few watches do it at once.
func (w *watch) saveTranscript(ctx context.Context) error {
	if err := w.transcripts.Acquire(ctx, 1); err != nil {
		return fault.Wrap(fault.Unavailable, err, "wait to save the transcript")
	}
	defer w.transcripts.Release(1)
	t, err := w.run.Transcript(ctx)
	if err != nil {
		return err
	}
	key := store.AttemptKey(w.job.RolloutID, w.job.Attempt, store.Transcript)
	if err := untilAnswered(ctx, func() error { return w.Store.PutJSON(ctx, key, t) }); err != nil {
		return err
	}
	return w.job.Env.Sandbox.WriteFile(ctx, w.job.Kind.LogPath, bytes.NewReader(w.job.Kind.Log(t)), 0o644)
}

// untilAnswered writes to the store again when it does not answer, for nothing repeats the last save. Not every client of a bucket repeats an upload
// whose connection broke.
func untilAnswered(ctx context.Context, write func() error) error {
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		err := write()
		if err != nil && !fault.Is(err, fault.Unavailable) {
			err = backoff.Permanent(err)
		}
		return struct{}{}, err
	}, backoff.WithBackOff(&backoff.ExponentialBackOff{InitialInterval: firstPause, Multiplier: 2, MaxInterval: lastPause}), backoff.WithMaxTries(writeTries))
	return err
}

// earlier is the earlier of two times; a zero time is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
