package cli_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/cli"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// stream is one connection: its events, and the error that ends it.
type stream struct {
	events []rollout.Event
	err    error
}

// streams returns one connection after another. Each has only the events after the last id.
type streams []stream

func (s *streams) Events(_ context.Context, _ string, after int64, each func(rollout.Event)) error {
	next := (*s)[0]
	if len(*s) > 1 {
		*s = (*s)[1:]
	}

	for _, e := range next.events {
		if e.ID == 0 || e.ID > after {
			each(e)
		}
	}

	return next.err
}

var begin = time.Unix(1_800_000_000, 0)

func event(id int64, kind rollout.EventKind, data any) rollout.Event {
	raw, _ := json.Marshal(data)
	return rollout.Event{ID: id, Kind: kind, Data: raw}
}

// phase returns the event of a phase that begins the given seconds after the first.
func phase(id int64, p rollout.Phase, attempt, seconds int) rollout.Event {
	return event(id, rollout.EventPhase, rollout.PhaseEvent{
		Phase:   p,
		Attempt: attempt,
		Start:   begin.Add(time.Duration(seconds) * time.Second),
	})
}

func stamp(seconds int) rollout.Stamp {
	return rollout.Stamp{At: begin.Add(time.Duration(seconds) * time.Second)}
}

// Each event is printed once, even if the stream breaks. Follow prints an outage and continues after it.
func TestFollowPrintsEveryEventOnce(t *testing.T) {
	t.Parallel()

	away := fault.New(fault.Unavailable, "no answer")
	finished := begin.Add(9 * time.Second)
	first := []rollout.Event{
		phase(1, rollout.PhaseCreating, 1, 0), event(0, rollout.EventWaiting, rollout.WaitingEvent{
			Stamp:   stamp(1),
			Waiting: "it is\x1b paused",
		}),
		phase(0, rollout.PhaseAgent, 1, 2), phase(2, rollout.PhaseAgent, 1, 2), // the host did not answer for a moment
	}
	rest := []rollout.Event{
		event(3, rollout.EventTurn, rollout.TurnEvent{Stamp: stamp(3), TurnKind: rollout.KindAgent, PromptTokens: 7}),
		event(4, rollout.EventTurn, rollout.TurnEvent{Stamp: stamp(3), TurnKind: rollout.KindTitle}),
		event(5, rollout.EventText, rollout.TextEvent{Stamp: stamp(4), Text: "I am\x1b here"}),
		event(6, rollout.EventToolStart, rollout.ToolEvent{
			Stamp: stamp(4),
			Tool:  "bash",
			Input: json.RawMessage(`{"command":"ls \u0026\u0026 printf '\\u0026'"}`),
		}),
		event(7, rollout.EventToolEnd, rollout.ToolEvent{
			Stamp:  stamp(5),
			Tool:   "bash",
			Status: "completed",
			Output: "a\nb",
		}),
		event(8, rollout.EventCommand, rollout.CommandEvent{
			Stamp:   stamp(6),
			Stage:   rollout.StageVerifier,
			Number:  1,
			Command: "true",
			Result:  &rollout.CommandResult{},
		}),
		event(9, rollout.EventAttempt, rollout.AttemptEvent{
			Stamp:   stamp(7),
			Outcome: rollout.InfraFailed,
			Error:   "host lost",
		}), event(10, "of the future", 1),
		phase(11, rollout.PhaseCreating, 2, 8), event(13, rollout.EventToolEnd, rollout.ToolEvent{
			Stamp:  stamp(8),
			Tool:   "bash",
			Status: "completed",
		}),
		event(14, rollout.EventAttempt, rollout.AttemptEvent{
			Stamp:   rollout.Stamp{At: begin.Add(8 * time.Second), Attempt: 1},
			Outcome: rollout.Completed,
		}), event(15, rollout.EventDone, rollout.State{Phase: rollout.PhaseDone, FinishedAt: &finished}),
	}
	server := streams{{first, away}, {nil, away}, {append(first, rest...), nil}}

	var out strings.Builder

	f := cli.Follower{Server: &server, Out: &out, Pause: time.Millisecond, Verbose: true}
	require.NoError(t, f.Follow(t.Context(), "r"))

	got := out.String()
	for _, line := range []string{
		"    0.0 s  creating the sandbox\n", "    2.0 s  running the agent\n", "  it is\\x1b paused\n", "    3.0 s    1 model call (7 prompt", "text: I am\\x1b here\n",
		`bash $ ls && printf '\u0026'`, "bash completed: a\n", "verifier command 1 exited with 0: true\n", ": infra_failed: host lost\n", "attempt 2\n", "    8.0 s  creating the sandbox\n",
		"    9.0 s  done\n", "the server does not answer",
		"bash completed\n", "attempt 1: completed\n",
	} {
		require.Equal(t, 1, strings.Count(got, line), "%q in\n%s", line, got)
	}

	require.NotContains(t, got, " \n", "no line ends with a space")
}

// A repeated reason for waiting is printed once, and again after a model call.
func TestFollowSaysOnceWhyARolloutWaits(t *testing.T) {
	t.Parallel()

	waiting := func(id int64, why string) rollout.Event {
		return event(id, rollout.EventWaiting, rollout.WaitingEvent{Stamp: stamp(1), Waiting: why})
	}

	var out strings.Builder

	f := cli.Follower{Out: &out, Pause: time.Millisecond, Server: &streams{
		{
			[]rollout.Event{
				phase(1, rollout.PhaseAgent, 1, 0),
				waiting(2, "refused"),
				waiting(3, ""),
				waiting(4, "refused"),
				waiting(5, ""),
				waiting(6, "overloaded"),
				waiting(7, ""),
				event(8, rollout.EventTurn, rollout.TurnEvent{
					Stamp:    stamp(3),
					TurnKind: rollout.KindAgent,
				}),
				waiting(9, "refused"),
				event(10, rollout.EventDone, rollout.State{Phase: rollout.PhaseDone}),
			},
			nil,
		},
	}}
	require.NoError(t, f.Follow(t.Context(), "r"))
	require.Equal(t, 2, strings.Count(out.String(), "refused"), out.String())
	require.Equal(t, 1, strings.Count(out.String(), "overloaded"), out.String())
}

func TestFollowEnds(t *testing.T) {
	t.Parallel()

	var out strings.Builder

	follow := func(ctx context.Context, s streams) error {
		f := cli.Follower{Server: &s, Out: &out, Pause: time.Millisecond}
		return f.Follow(ctx, "r")
	}
	require.True(
		t,
		fault.Is(follow(t.Context(), streams{{nil, fault.New(fault.NotFound, "no rollout")}}), fault.NotFound),
	)
	require.True(
		t,
		fault.Is(follow(t.Context(), streams{{nil, fault.New(fault.Unauthorized, "token")}}), fault.Unauthorized),
	)

	cause := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	require.ErrorIs(t, follow(ctx, streams{{nil, fault.New(fault.Unavailable, "away")}}), cause)
}
