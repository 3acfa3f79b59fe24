package supervisor

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
	// minimum pause between two saves of the transcript, and before the first one: at once it is empty
	saveEvery = 5 * time.Second

	// minimum pause between two reports to the workflow
	reportEvery = 5 * time.Second

	// delay of the first report after the agent is ready: a shorter run is reported at its end only
	firstReport = time.Second

	// bound for the agent's whole time: each is an event in the workflow's history
	maxReports = 200

	// reports that the endpoint began to fail, which do not wait for the regular pause
	maxUrgent = 50

	// bounds one save or report: neither may delay the watch
	reportTimeout = 10 * time.Second

	// Tries to store a transcript, and the pauses between them.
	writeTries            = 6
	firstPause, lastPause = 50 * time.Millisecond, 800 * time.Millisecond
)

// progressReporter writes the transcript to the store and the sandbox, and sends turns and session to the
// workflow. It only logs its failures.
type progressReporter struct {
	reported   rollout.Progress
	reportedAt time.Time

	// reported.Waiting is that no connection to the endpoint can be made
	unreachable bool

	// when there was first something to report
	readyAt time.Time

	// between reports
	pause time.Duration

	// reports sent without that pause
	urgent int

	savedTurns int
	savedAt    time.Time
}

func newProgressReporter(j *Job) progressReporter {
	return progressReporter{
		reported:   rollout.Progress{Attempt: j.Attempt},
		pause:      max(reportEvery, j.Limits.Agent/maxReports),
		savedTurns: -1,
	}
}

// report reports and saves the changes that are due, and returns the time at which the remaining ones are
// due; zero if none remain.
func (p *progressReporter) report(ctx context.Context, w *watch) (next time.Time) {
	if !w.state.Agent.Ready && w.state.Route.Trouble == "" {
		return time.Time{}
	}

	now := time.Now()
	if p.readyAt.IsZero() {
		p.readyAt, p.savedAt = now, now
	}

	next = p.saveIfDue(ctx, w, now)

	current := p.progress(w)
	if current == p.reported {
		return next
	}

	urgent := current.Waiting != "" && p.reported.Waiting == "" && p.urgent < maxUrgent
	if due := p.reportDue(urgent); due.After(now) {
		return earlier(next, due)
	}

	if urgent {
		p.urgent++
	}

	p.reported, p.reportedAt, p.unreachable = current, now, w.state.Route.Unreachable
	w.signalProgress(ctx, current)

	return next
}

// saveIfDue saves the transcript if there are new turns and its pause is over. Else it returns when it is over; zero:
// there is nothing to save.
func (p *progressReporter) saveIfDue(ctx context.Context, w *watch, now time.Time) (due time.Time) {
	if !w.state.Agent.Ready || w.state.Route.Turns == p.savedTurns {
		return time.Time{}
	}

	if due = p.savedAt.Add(saveEvery); due.After(now) {
		return due
	}

	p.save(ctx, w)

	return time.Time{}
}

// reportDue is when the next report may be sent. An urgent one does not wait for the regular pause.
func (p *progressReporter) reportDue(urgent bool) time.Time {
	if urgent {
		return p.reportedAt.Add(reportEvery)
	}

	due, first := p.reportedAt.Add(p.pause), p.readyAt.Add(firstReport)
	if due.Before(first) {
		return first
	}

	return due
}

// signalProgress sends the progress to the workflow.
func (w *watch) signalProgress(ctx context.Context, current rollout.Progress) {
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()

	id := rollout.WorkflowID(w.job.RolloutID)
	if err := w.Signals.SignalWorkflow(ctx, id, "", rollout.SignalTurns, current); err != nil {
		w.log.WarnContext(ctx, "progress not reported", "error", err)
	}
}

// progress is the current progress. While the endpoint fails, Waiting keeps the first reason, since later reasons
// often differ only by a port, until the endpoint is no longer unreachable, or begins to be.
func (p *progressReporter) progress(w *watch) rollout.Progress {
	waiting := w.state.waiting()
	if waiting != "" && p.reported.Waiting != "" && w.state.Route.Unreachable == p.unreachable {
		waiting = p.reported.Waiting
	}

	return rollout.Progress{
		Attempt:   w.job.Attempt,
		Turns:     w.state.Route.Turns,
		SessionID: w.state.Agent.SessionID,
		Waiting:   waiting,
	}
}

// save writes the transcript to the store, and its log to the sandbox, where task authors look for it.
func (p *progressReporter) save(ctx context.Context, w *watch) {
	p.savedTurns, p.savedAt = w.state.Route.Turns, time.Now()

	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	// an agent that was stopped early has no transcript
	if err := w.saveTranscript(ctx); err != nil && !fault.Is(err, fault.NotFound) {
		w.log.WarnContext(ctx, "transcript not saved", "error", err)
	}
}

// saveTranscript needs several times the transcript's size in memory, so only a few watches run it at once.
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

	if err := retryUnavailable(ctx, func() error { return w.Store.PutJSON(ctx, key, t) }); err != nil {
		return err
	}

	return w.job.Env.Sandbox.WriteFile(ctx, w.job.Kind.LogPath, bytes.NewReader(w.job.Kind.Log(t)), 0o644)
}

// retryUnavailable retries a write while the store is unavailable. Nothing else retries the last save, and
// not every bucket client retries an upload whose connection broke.
func retryUnavailable(ctx context.Context, write func() error) error {
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		err := write()
		if err != nil && !fault.Is(err, fault.Unavailable) {
			err = backoff.Permanent(err)
		}

		return struct{}{}, err
	}, backoff.WithBackOff(&backoff.ExponentialBackOff{
		InitialInterval: firstPause,
		Multiplier:      2,
		MaxInterval:     lastPause,
	}), backoff.WithMaxTries(writeTries))

	return err
}

// earlier returns the earlier of two times. It ignores a zero time.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}

	return a
}
