package cli_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/cli"
	"github.com/rolloutd/rolloutd/internal/cli/client"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// answers returns one answer after another, and then repeats the last.
type answers []func() (client.State, error)

func (a *answers) State(context.Context, string) (client.State, error) {
	next := (*a)[0]
	if len(*a) > 1 {
		*a = (*a)[1:]
	}
	return next()
}

var begin = time.Unix(1_800_000_000, 0)

// state has the given phases, a second apart.
func state(status string, turns int, phases ...rollout.PhaseTiming) func() (client.State, error) {
	s := client.State{Status: status, Turns: turns, StartedAt: float64(begin.Unix())}
	for i, p := range phases {
		p.Start = begin.Add(time.Duration(i) * time.Second)
		s.Phases = append(s.Phases, p)
		s.Phase = p.Phase
	}
	return func() (client.State, error) { return s, nil }
}

func phase(p rollout.Phase, attempt int) rollout.PhaseTiming {
	return rollout.PhaseTiming{Phase: p, Attempt: attempt}
}

// Each phase is printed once, even if it is shorter than the interval between requests. An outage is printed and survived.
func TestFollowPrintsEveryPhaseOnce(t *testing.T) {
	t.Parallel()
	creating, proxy, agent, done := phase(rollout.PhaseCreating, 1), phase(rollout.PhaseProxy, 1), phase(rollout.PhaseAgent, 1), phase(rollout.PhaseDone, 2)
	again := phase(rollout.PhaseCreating, 2)
	away := func() (client.State, error) { return client.State{}, fault.New(fault.Unavailable, "no answer") }
	waits := func() (client.State, error) {
		return client.State{Status: "running", Waiting: "it is\x1b paused"}, nil
	}
	server := answers{
		waits, waits, state("running", 0, creating), state("running", 0, creating), away, away,
		state("running", 2, creating, proxy, agent), state("done", 2, creating, proxy, agent, again, done),
	}
	var out strings.Builder
	f := cli.Follower{Server: &server, Out: &out, Poll: time.Millisecond}
	s, err := f.Follow(t.Context(), "r")
	require.NoError(t, err)
	require.True(t, s.Done())
	got := out.String()
	for _, line := range []string{
		"    0.0 s  creating the sandbox\n", "    1.0 s  opening the model channel\n", "    2.0 s  running the agent\n",
		"  it is\\x1b paused\n", "2 model calls\n", "attempt 2\n", "    3.0 s  creating the sandbox\n", "    4.0 s  done\n", "the server does not answer",
	} {
		require.Equal(t, 1, strings.Count(got, line), "%q in\n%s", line, got)
	}
}

func TestFollowEnds(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	follow := func(ctx context.Context, a answers) error {
		f := cli.Follower{Server: &a, Out: &out, Poll: time.Millisecond}
		_, err := f.Follow(ctx, "r")
		return err
	}
	require.True(t, fault.Is(follow(t.Context(), answers{state("unknown", 0)}), fault.NotFound))
	refused := func() (client.State, error) { return client.State{}, fault.New(fault.Unauthorized, "token") }
	require.True(t, fault.Is(follow(t.Context(), answers{refused}), fault.Unauthorized))

	cause := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	require.ErrorIs(t, follow(ctx, answers{state("running", 0)}), cause)
}
