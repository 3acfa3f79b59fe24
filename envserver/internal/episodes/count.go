package episodes

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/rolloutd/rolloutd/envserver/internal/session"
	"github.com/rolloutd/rolloutd/internal/episode"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// countTime bounds the wait for the host of an episode.
const countTime = 5 * time.Second

// Count brings the number of the episode's steps in the session up to date: that of executed calls in the
// step log. An answer that was lost with a server counts, a call that was repeated by its id does not. It
// returns how many calls still run, which are not counted yet. The error is a fault.Unavailable while the
// number cannot be known.
func (p *Player) Count(ctx context.Context, sess *session.Session) (running int, err error) {
	playing := sess.Playing()
	if playing == nil || playing.Counted {
		return 0, nil
	}

	status, final, err := p.counts(ctx, playing.RolloutID)
	if err != nil {
		return 0, err
	}

	sess.CountSteps(playing.RolloutID, status.Steps)
	p.progress(ctx, sess, playing.RolloutID, func(now *session.Playing) {
		now.Counted = now.Counted || final && now.Done
		if len(status.ToolsUsed) > len(now.ToolsUsed) {
			now.ToolsUsed = status.ToolsUsed
		}
	})

	return status.Running, nil
}

// counts returns the steps of an episode: from its host, or once it has ended from the stored log, which is final.
func (p *Player) counts(ctx context.Context, id string) (s episode.Status, final bool, err error) {
	asking, cancel := context.WithTimeout(ctx, countTime)
	defer cancel()

	s, err = p.o.Episodes.Ready(asking, id)
	switch {
	case err == nil:
		return s, false, nil
	case fault.Is(err, fault.Timeout) && ctx.Err() == nil:
		return s, false, fault.Wrap(fault.Unavailable, err, "the steps of the episode are not known now")
	case !fault.Is(err, fault.Conflict):
		return s, false, err
	}

	log, err := p.o.Rollouts.Open(ctx, id, "steps")
	if fault.Is(err, fault.NotFound) {
		return p.withoutLog(ctx, id)
	}

	if err != nil {
		return s, false, err
	}

	defer log.Close()

	s, err = countSteps(log)

	return s, true, err
}

// withoutLog is the status of an episode that takes no calls and has no stored log: one that is being
// graded, or that ended before its first call.
func (p *Player) withoutLog(ctx context.Context, id string) (episode.Status, bool, error) {
	state, err := p.o.Rollouts.State(ctx, id)
	if err == nil && !state.Done() {
		err = fault.New(fault.Unavailable, "the steps of the episode are not known until it is graded (%s)",
			state.Phase)
	}

	return episode.Status{}, true, err
}

// countSteps counts the calls in a step log. A line has the result of a call, and any length.
func countSteps(log io.Reader) (s episode.Status, err error) {
	lines := bufio.NewReader(log)
	decoder := json.NewDecoder(lines)

	for {
		var step struct{ Kind, Tool string }

		err := decoder.Decode(&step)
		if errors.Is(err, io.EOF) {
			return s, nil
		}

		if err != nil {
			return s, fault.Wrap(fault.Internal, err, "read the step log")
		}

		if step.Kind != episode.KindCall {
			continue
		}

		s.Steps++
		if !slices.Contains(s.ToolsUsed, step.Tool) && step.Tool != rollout.SubmitTool {
			s.ToolsUsed = append(s.ToolsUsed, step.Tool)
		}
	}
}
