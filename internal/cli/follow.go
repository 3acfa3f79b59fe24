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

// Server is the server that a Follower polls. *client.Client implements it.
type Server interface {
	State(ctx context.Context, id string) (client.State, error)
}

// Follower prints a rollout's phases as they happen.
type Follower struct {
	Server Server
	Out    io.Writer
	Poll   time.Duration // least interval between two requests; it grows to two seconds as the rollout goes on

	shown   int  // number of phases printed
	turns   int  // model calls printed for this attempt
	attempt int  // the attempt printed last
	waiting bool // the reason for waiting was printed
	away    bool // the loss of the server was printed
}

// Follow polls until the rollout is done and returns its last state. It waits while the server is unreachable, since the rollout does
// not need the server.
func (f *Follower) Follow(ctx context.Context, id string) (client.State, error) {
	for begun := time.Now(); ; {
		s, err := f.poll(ctx, id)
		if err != nil || s.Done() {
			return s, err
		}
		pause := time.NewTimer(max(f.Poll, min(time.Since(begun)/20, longestPoll)))
		select {
		case <-ctx.Done():
			pause.Stop()
			return s, context.Cause(ctx)
		case <-pause.C:
		}
	}
}

// longestPoll is the longest pause between two requests: each asks the workflow, which costs some 5 ms of CPU time.
const longestPoll = 2 * time.Second

func (f *Follower) poll(ctx context.Context, id string) (client.State, error) {
	s, err := f.Server.State(ctx, id)
	switch {
	case ctx.Err() != nil:
		return s, context.Cause(ctx)
	case fault.Is(err, fault.Unavailable):
		f.reportAway()
		return client.State{}, nil
	case err != nil:
		return s, err
	case s.Unknown():
		return s, fault.New(fault.NotFound, "the server has no rollout %q", id)
	}
	f.away = false
	f.report(s)
	return s, nil
}

// reportAway prints one line for each outage of the server.
func (f *Follower) reportAway() {
	if !f.away {
		f.away = true
		fmt.Fprintln(f.Out, "          (the server does not answer; the rollout continues without it; still waiting)")
	}
}

// report prints what is new in s. It includes phases that began and ended between two requests, with their own times.
func (f *Follower) report(s client.State) {
	for _, p := range s.Phases[min(f.shown, len(s.Phases)):] {
		f.shown++
		if p.Attempt > 1 && p.Attempt != f.attempt {
			fmt.Fprintf(f.Out, "          attempt %d\n", p.Attempt)
		}
		if p.Attempt != f.attempt {
			f.attempt, f.turns, f.waiting = p.Attempt, 0, false
		}
		f.line(sinceStart(s, p.Start), phaseName(p.Phase))
	}
	if s.Waiting != "" && !f.waiting {
		f.line(sinceStart(s, time.Now()), "  "+plain(s.Waiting))
	}
	f.waiting = s.Waiting != ""
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
