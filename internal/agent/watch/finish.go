package watch

import (
	"context"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// finish ends what is still going on, saves the transcript, and makes the decision a result. The order matters: no token is
// generated any more before the transcript is taken, and it is taken before the process is killed.
func (w *watch) finish(ctx context.Context, d Decision) (*Result, error) {
	ctx, cancel := context.WithTimeout(ctx, finishTime)
	defer cancel()
	if d.Err != nil {
		w.reporter.save(ctx, w)
		w.events.last(ctx, w)
		return nil, d.Err
	}
	if err := w.Gateway.End(ctx, w.job.SandboxID, d.reason()); err != nil {
		return nil, err
	}
	w.reporter.save(ctx, w)
	w.events.last(ctx, w)
	if !w.state.Agent.Done {
		// Processes that take long to die are ended again before the work is graded, and then its own fault.
		if err := w.run.Stop(ctx); err != nil && !fault.Is(err, fault.Timeout) {
			return nil, err
		}
	}
	return &Result{
		Outcome: d.Outcome, ExitCode: w.state.exitCode(), Error: d.Text,
		Turns: w.state.Route.Turns, SessionID: w.state.Agent.SessionID, Malformed: w.state.Agent.Malformed, Held: w.state.notItsOwn(),
	}, nil
}
