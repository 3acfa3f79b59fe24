package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/rolloutd/rolloutd/internal/cli/client"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Server is what a follower asks; *client.Client is one.
type Server interface {
	State(ctx context.Context, id string) (client.State, error)
}

// Follower tells a rollout's phases as they happen.
type Follower struct {
	Server Server
	Out    io.Writer
	Poll   time.Duration // between two looks

	shown   int  // phases that were told
	turns   int  // model calls that were told
	attempt int  // the attempt told last
	waits   bool // why that one waits was told
	silent  bool // the server does not answer, which was told
}

// Follow returns the last state of the rollout once it is done. A server that is away is waited for: the rollout does not need it.
func (f *Follower) Follow(ctx context.Context, id string) (client.State, error) {
	tick := time.NewTicker(f.Poll)
	defer tick.Stop()
	for {
		s, err := f.look(ctx, id)
		if err != nil || s.Done() {
			return s, err
		}
		select {
		case <-ctx.Done():
			return s, context.Cause(ctx)
		case <-tick.C:
		}
	}
}

func (f *Follower) look(ctx context.Context, id string) (client.State, error) {
	s, err := f.Server.State(ctx, id)
	switch {
	case ctx.Err() != nil:
		return s, context.Cause(ctx)
	case fault.Is(err, fault.Unavailable):
		f.away()
		return client.State{}, nil
	case err != nil:
		return s, err
	case s.Unknown():
		return s, fault.New(fault.NotFound, "the server knows no rollout %q", id)
	}
	f.silent = false
	f.tell(s)
	return s, nil
}

// away is told once for each time the server goes away.
func (f *Follower) away() {
	if !f.silent {
		f.silent = true
		fmt.Fprintln(f.Out, "          (the server does not answer; the rollout does not need it, still waiting)")
	}
}

// tell writes the lines for what is new in s. A phase that came and went between two looks is told too, with its own time.
func (f *Follower) tell(s client.State) {
	for _, p := range s.Phases[min(f.shown, len(s.Phases)):] {
		f.shown++
		if p.Attempt > 1 && p.Attempt != f.attempt {
			fmt.Fprintf(f.Out, "          attempt %d\n", p.Attempt)
		}
		if p.Attempt != f.attempt {
			f.attempt, f.turns, f.waits = p.Attempt, 0, false
		}
		f.line(sinceStart(s, p.Start), phaseName(p.Phase))
	}
	if s.Waiting != "" && !f.waits {
		f.waits = true
		f.line(sinceStart(s, time.Now()), "  "+plain(s.Waiting))
	}
	if s.Turns > f.turns && s.Phase == rollout.PhaseAgent {
		f.turns = s.Turns
		f.line(sinceStart(s, time.Now()), "  "+count(s.Turns, "model call"))
	}
}

func (f *Follower) line(at time.Duration, text string) {
	fmt.Fprintf(f.Out, "%7.1f s  %s\n", at.Seconds(), text)
}

func sinceStart(s client.State, t time.Time) time.Duration {
	return max(0, t.Sub(time.UnixMicro(int64(s.StartedAt*1e6))))
}
