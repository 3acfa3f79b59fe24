package supervisor

import (
	"context"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// finish ends the route, saves the transcript, stops the agent and returns the result of the decision. The
// order matters: the transcript is taken after the last token was generated, and before the process is
// killed.
func (w *watch) finish(ctx context.Context, d Decision) (*Result, error) {
	ctx, cancel := context.WithTimeout(ctx, finishTime)
	defer cancel()

	if d.Err != nil {
		w.reporter.save(ctx, w)
		w.events.reportLast(ctx, w)

		return nil, d.Err
	}

	if err := w.Gateway.End(ctx, w.job.SandboxID, d.reason()); err != nil {
		return nil, err
	}

	w.reporter.save(ctx, w)
	w.events.reportLast(ctx, w)

	if !w.state.Agent.Done {
		// Processes that outlive Stop are killed again before grading, which fails if they cannot be killed.
		if err := w.run.Stop(ctx); err != nil && !ofAgent(err) {
			return nil, err
		}
	}

	return &Result{
		Outcome:   d.Outcome,
		ExitCode:  w.state.exitCode(),
		Error:     d.Text,
		Turns:     w.state.Route.Turns,
		SessionID: w.state.Agent.SessionID,
		Malformed: w.state.Agent.Malformed,
		Held:      w.state.excluded(),
	}, nil
}

// ofAgent reports whether what the agent has done in its sandbox can be the cause of an error.
func ofAgent(err error) bool {
	switch fault.KindOf(err) {
	case fault.Timeout, fault.Invalid, fault.OutOfMemory, fault.OutOfDisk:
		return true
	default:
		return false
	}
}
