package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Server is the source of a Follower's events. *client.Client implements it.
type Server interface {
	Events(ctx context.Context, id string, after int64, each func(rollout.Event)) error
}

// Follower prints what happens in a rollout, as it happens.
type Follower struct {
	Server Server
	Out    io.Writer

	// between two requests to a server that does not answer
	Pause time.Duration

	// print texts and tool calls of the agent, too
	Verbose bool

	// id of the last event
	after int64

	// phases that were printed
	phases map[rollout.PhaseEvent]bool
	began  time.Time

	// time of the latest event that was printed
	latest time.Time

	// model calls of this attempt
	turns int

	// attempt that was printed last
	attempt int

	// the reason for waiting was printed
	waiting bool

	// reason for waiting that was printed last, since the last phase and model call
	reason string

	// the outage of the server was printed
	away bool
	done bool
}

// Follow prints the events of a rollout until it is done. It waits while the server is unreachable, since
// the rollout does not need the server.
func (f *Follower) Follow(ctx context.Context, id string) error {
	for {
		err := f.Server.Events(ctx, id, f.after, f.handle)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case f.done:
			return nil
		case err != nil && !fault.Is(err, fault.Unavailable):
			return err
		}

		if err != nil {
			f.reportOutage()
		}

		timer := time.NewTimer(f.Pause)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}

		timer.Stop()
	}
}

// reportOutage prints one line for each outage of the server.
func (f *Follower) reportOutage() {
	if !f.away {
		f.away = true
		fmt.Fprintln(f.Out, "          (the server does not answer; the rollout continues without it; still waiting)")
	}
}

// handle prints an event. It skips data that does not decode, which is of a later version.
func (f *Follower) handle(e rollout.Event) {
	f.away, f.after = false, max(f.after, e.ID)
	switch e.Kind {
	case rollout.EventPhase:
		if p, ok := decodeEvent[rollout.PhaseEvent](e); ok {
			f.phase(p)
		}
	case rollout.EventTurn:
		if t, ok := decodeEvent[rollout.TurnEvent](e); ok && t.Broken == "" &&
			(t.TurnKind == rollout.KindAgent || t.TurnKind == rollout.KindSubagent) {
			f.turns, f.reason = f.turns+1, ""
			f.line(
				t.At,
				fmt.Sprintf("  %s (%d prompt + %d completion tokens)",
					count(f.turns, "model call"), t.PromptTokens, t.CompletionTokens),
			)
		}
	case rollout.EventWaiting:
		if w, ok := decodeEvent[rollout.WaitingEvent](e); ok {
			if w.Waiting != "" && !f.waiting && w.Waiting != f.reason {
				f.line(w.At, "  "+plain(w.Waiting))
				f.reason = w.Waiting
			}

			f.waiting = w.Waiting != ""
		}
	case rollout.EventDone:
		f.done = true
		if s, ok := decodeEvent[rollout.State](e); ok && s.FinishedAt != nil {
			f.line(*s.FinishedAt, phaseName(rollout.PhaseDone))
		}
	default:
		if f.Verbose {
			f.detail(e)
		}
	}
}

func decodeEvent[T any](e rollout.Event) (data T, ok bool) {
	return data, json.Unmarshal(e.Data, &data) == nil
}

// phase prints a phase once. A phase that was sent while the host did not answer is sent again with the log.
func (f *Follower) phase(p rollout.PhaseEvent) {
	// the clocks of a host and of the workflow differ
	once := rollout.PhaseEvent{Phase: p.Phase, Attempt: p.Attempt}
	if f.phases[once] {
		return
	}

	if f.phases == nil {
		f.phases = map[rollout.PhaseEvent]bool{}
	}

	f.phases[once] = true
	if f.began.IsZero() {
		f.began = p.Start
	}

	if p.Attempt != f.attempt {
		if p.Attempt > 1 {
			fmt.Fprintf(f.Out, "          attempt %d\n", p.Attempt)
		}

		f.attempt, f.turns, f.waiting = p.Attempt, 0, false
	}

	f.reason = ""
	f.line(p.Start, phaseName(p.Phase))
}

func (f *Follower) line(at time.Time, text string) {
	if f.began.IsZero() {
		f.began = at
	}
	// the end of a rollout is the end of its last attempt, before its sandboxes are closed
	if at.Before(f.latest) {
		at = f.latest
	}

	f.latest = at
	fmt.Fprintf(f.Out, "%7.1f s  %s\n", max(0, at.Sub(f.began).Seconds()), text)
}
