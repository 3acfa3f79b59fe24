// Package sinktest is the suite that every sink passes.
package sinktest

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/delivery"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/trajectory/formats"
	"github.com/rolloutd/rolloutd/internal/trajectory/sequence"
)

// Subject is a sink and what its consumer has.
type Subject struct {
	Sink delivery.Sink
	// Received returns what the consumer has got since the suite began, in the order of service: the score
	// of the first rollout of each group. It may be called several times.
	Received func(t *testing.T) []float64
	// Restart makes another sink of the same settings, as a restarted worker does.
	Restart func(t *testing.T) delivery.Sink
	// BreakNext makes the next delivery fail after the consumer may have got it, so that the sink does not
	// learn of it; nil: the sink has no such moment.
	BreakNext func()
}

// Size is the number of rollouts of the groups of the suite.
const Size = 2

// bound ends a call that hangs.
const bound = 2 * time.Minute

// Group makes a complete group with a number, which is the reward of its first rollout. Its rollouts have
// one sequence each.
func Group(n int) delivery.Group {
	id := "g" + strconv.Itoa(n)
	g := delivery.Group{
		Key:        id + "-key",
		ID:         id,
		TaskID:     "task",
		Outcome:    rollout.GroupComplete,
		Size:       Size,
		FinishedAt: time.Unix(int64(1_700_000_000+n), 0).UTC(),
	}

	var rewards []float64

	for i := range Size {
		reward := float64(n) + float64(i)/4
		rewards = append(rewards, reward)
		rolloutID := rollout.MemberID(id, i, 0)
		g.Siblings = append(g.Siblings, delivery.Sibling{
			RolloutID: rolloutID,
			Outcome:   rollout.Completed,
			Reward:    reward,
		})
		g.Data = append(g.Data, formats.Scored{RolloutID: rolloutID, Reward: &reward, Trajectory: trajectory(n, i)})
	}

	g.Statistics = rollout.StatisticsOf(rewards)

	advantages := rollout.Advantages(rewards, true)
	for i := range g.Data {
		g.Data[i].Standing = formats.Standing{
			GroupKey:         g.Key,
			Advantage:        &advantages[i],
			CentredAdvantage: &advantages[i],
		}
	}

	return g
}

// trajectory has a prompt of two tokens, one sampled token, one of a tool and two sampled tokens.
func trajectory(n, i int) sequence.Trajectory {
	temperature := 0.7

	return sequence.Trajectory{Turns: 2, Sequences: []sequence.Sequence{{
		Lineage: "s", Branch: rollout.BranchRoot,
		TokenIDs: []int32{1, 2, int32(1000 + n), 3, int32(2000 + i), 5},
		LossMask: sequence.Mask{0, 0, 1, 0, 1, 1},
		Logprobs: []float64{0, 0, -0.5, 0, -0.25, -2},
		Spans: []sequence.Span{
			{Turn: 1, Start: 2, Stop: 3, Train: true, FinishReason: "tool_calls", Temperature: &temperature},
			{Turn: 2, Start: 4, Stop: 6, Train: true, FinishReason: "stop", Temperature: &temperature},
		},
		End: sequence.EndOfTrace,
	}}}
}

// Run runs the suite. open makes a subject whose consumer is empty.
func Run(t *testing.T, open func(t *testing.T) Subject) {
	t.Helper()

	for name, test := range map[string]func(*testing.T, Subject){
		"delivers in order":             inOrder,
		"delivers once":                 once,
		"survives a restart":            restarts,
		"takes groups at the same time": together,
		"has room":                      room,
		"obeys its context":             canceled,
		"repeats what broke":            repeats,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

func deliver(t *testing.T, s delivery.Sink, n int) {
	t.Helper()

	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()

	require.NoError(t, s.Deliver(ctx, Group(n)))
}

func inOrder(t *testing.T, s Subject) {
	for n := 1; n <= 4; n++ {
		deliver(t, s.Sink, n)
	}

	require.Equal(t, []float64{1, 2, 3, 4}, s.Received(t))
}

func once(t *testing.T, s Subject) {
	for _, n := range []int{1, 1, 2, 1} {
		deliver(t, s.Sink, n)
	}

	require.Equal(t, []float64{1, 2}, s.Received(t))
}

func restarts(t *testing.T, s Subject) {
	deliver(t, s.Sink, 1)
	again := s.Restart(t)
	deliver(t, again, 1)
	deliver(t, again, 2)
	require.Equal(t, []float64{1, 2}, s.Received(t))
}

func together(t *testing.T, s Subject) {
	const groups = 8

	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()

	errs := make([]error, 2*groups)

	var all sync.WaitGroup
	for i := range errs {
		// each group by two callers
		all.Go(func() { errs[i] = s.Sink.Deliver(ctx, Group(1+i/2)) })
	}

	all.Wait()

	for i, err := range errs {
		require.NoError(t, err, fmt.Sprint("delivery ", i))
	}

	require.ElementsMatch(t, []float64{1, 2, 3, 4, 5, 6, 7, 8}, s.Received(t))
}

func room(t *testing.T, s Subject) {
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()

	status, err := s.Sink.Status(ctx)
	require.NoError(t, err)
	require.True(t, status.Ready, status.Waiting)
	require.NotZero(t, status.Room)
}

func canceled(t *testing.T, s Subject) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()

	if err := s.Sink.Deliver(ctx, Group(1)); err == nil {
		require.Equal(t, []float64{1}, s.Received(t))
	}

	deliver(t, s.Sink, 1)
	deliver(t, s.Sink, 2)
	require.Equal(t, []float64{1, 2}, s.Received(t))
}

func repeats(t *testing.T, s Subject) {
	if s.BreakNext == nil {
		t.Skip("no answer of this sink can be lost")
	}

	s.BreakNext()

	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()

	require.Error(t, s.Sink.Deliver(ctx, Group(1)))
	deliver(t, s.Sink, 1)
	deliver(t, s.Sink, 2)
	require.Equal(t, []float64{1, 2}, s.Received(t))
}
