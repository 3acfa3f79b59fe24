package sequence_test

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/trajectory/sequence"
)

// sampled returns a complete, delivered turn of the agent's own conversation.
func sampled(turn int, prompt, completion []int32) rollout.Turn {
	t := rollout.Turn{
		Turn:               turn,
		Kind:               rollout.KindAgent,
		Lineage:            "a",
		Branch:             rollout.BranchRoot,
		Delivered:          true,
		Train:              true,
		FinishReason:       "stop",
		PromptTokenIDs:     prompt,
		CompletionTokenIDs: completion,
		Request:            json.RawMessage(`{"temperature":0.5}`),
	}
	for i := range completion {
		t.PerTokenLogps = append(t.PerTokenLogps, -float64(turn)-float64(i)/10)
	}

	return t
}

func with(t rollout.Turn, edit func(*rollout.Turn)) rollout.Turn {
	edit(&t)
	return t
}

type ids = []int32

func build(t *testing.T, choice sequence.Choice, turns ...rollout.Turn) sequence.Trajectory {
	t.Helper()

	out, err := sequence.Build(turns, choice)
	require.NoError(t, err)

	return out
}

// Two turns are one sequence if the second prompt continues the first. Sampled tokens are trained on, the
// tokens between them are not.
func TestTurnsJoinOnAnExactPrefix(t *testing.T) {
	t.Parallel()
	got := build(t, sequence.Choice{}, sampled(1, ids{1, 2}, ids{3, 4}), sampled(2, ids{1, 2, 3, 4, 5, 6}, ids{7}))
	half := 0.5
	require.Equal(t, []sequence.Sequence{{
		Lineage: "a", Branch: rollout.BranchRoot, End: sequence.EndOfTrace,
		TokenIDs: ids{1, 2, 3, 4, 5, 6, 7},
		LossMask: sequence.Mask{0, 0, 1, 1, 0, 0, 1},
		Logprobs: []float64{0, 0, -1, -1.1, 0, 0, -2},
		Spans: []sequence.Span{
			{Turn: 1, Start: 2, Stop: 4, Train: true, FinishReason: "stop", Temperature: &half},
			{Turn: 2, Start: 6, Stop: 7, Train: true, FinishReason: "stop", Temperature: &half},
		},
	}}, got.Sequences)
	require.Equal(t, 3, got.Trained())
}

// A prompt that differs in one sampled token begins a new sequence, and the break has the position.
func TestSequenceEndsAtAPrefixBreak(t *testing.T) {
	t.Parallel()
	got := build(
		t,
		sequence.Choice{},
		sampled(1, ids{1, 2}, ids{3, 4}),
		sampled(2, ids{1, 2, 3, 9, 5}, ids{7}),
		sampled(3, ids{1, 2, 3, 9, 5, 7, 8}, ids{10}),
	)
	require.Len(t, got.Sequences, 2)
	require.Equal(t, sequence.EndPrefixBreak, got.Sequences[0].End)
	require.Equal(t, &rollout.PrefixBreak{AfterTurn: 1, At: 3}, got.Sequences[0].Break)
	require.Equal(t, sequence.Mask{0, 0, 0, 0, 0, 1, 0, 1}, got.Sequences[1].LossMask)
	require.Equal(t, 4, got.Trained(), "no sampled token is trained twice or lost")
}

// Conversations that take turns are a sequence each, in which nothing is a break.
func TestConversationsAtOnce(t *testing.T) {
	t.Parallel()
	got := build(
		t,
		sequence.Choice{},
		sampled(1, ids{1, 2}, ids{3}),
		sampled(2, ids{8, 8}, ids{9}),
		sampled(3, ids{1, 2, 3, 4}, ids{5}),
		sampled(4, ids{8, 8, 9, 8}, ids{7}),
		// again, with another reply
		sampled(5, ids{1, 2, 3, 4}, ids{6}),
		sampled(6, ids{1, 2, 3, 4, 5, 4}, ids{7}),
	)
	require.Len(t, got.Sequences, 3)
	require.Equal(t, ids{1, 2, 3, 4, 5, 4, 7}, got.Sequences[0].TokenIDs)
	require.Equal(t, sequence.Mask{0, 0, 1, 0, 1, 0, 1}, got.Sequences[0].LossMask)
	require.Equal(t, []float64{0, 0, -1, 0, -3, 0, -6}, got.Sequences[0].Logprobs)
	require.Equal(t, ids{8, 8, 9, 8, 7}, got.Sequences[1].TokenIDs)
	require.Equal(t, ids{1, 2, 3, 4, 6}, got.Sequences[2].TokenIDs)
	require.Equal(t, 6, got.Trained())

	require.Equal(t, sequence.EndOfTrace, got.Sequences[0].End)
	require.Nil(t, got.Sequences[0].Break)
	require.Equal(t, sequence.EndPrefixBreak, got.Sequences[1].End)
	require.Equal(t, &rollout.PrefixBreak{AfterTurn: 4}, got.Sequences[1].Break)
	require.Equal(t, sequence.EndOfTrace, got.Sequences[2].End)
}

func TestSequenceEndsAtACompaction(t *testing.T) {
	t.Parallel()
	after := with(sampled(3, ids{1, 8}, ids{9}), func(t *rollout.Turn) { t.Branch = rollout.BranchCompacted })
	got := build(t, sequence.Choice{}, sampled(1, ids{1, 2}, ids{3}), after)
	require.Equal(t, sequence.EndCompacted, got.Sequences[0].End)
	require.Equal(t, rollout.BranchCompacted, got.Sequences[1].Branch)
}

// Turns that are in no sequence do not disturb the sequence around them.
func TestSkippedTurns(t *testing.T) {
	t.Parallel()

	cases := map[sequence.Skip]func(*rollout.Turn){
		sequence.SkipAuxiliary:   func(t *rollout.Turn) { t.Kind, t.Train = rollout.KindTitle, false },
		sequence.SkipSummary:     func(t *rollout.Turn) { t.Kind, t.Train = rollout.KindSummary, false },
		sequence.SkipForeign:     func(t *rollout.Turn) { t.Kind, t.Train = rollout.KindForeign, false },
		sequence.SkipSubagent:    func(t *rollout.Turn) { t.Kind, t.Train, t.Lineage = rollout.KindSubagent, false, "a/b" },
		sequence.SkipUndelivered: func(t *rollout.Turn) { t.Delivered, t.Train = false, false },
		sequence.SkipBroken:      func(t *rollout.Turn) { t.Broken, t.Train = "aborted", false },
		sequence.SkipNoTokens:    func(t *rollout.Turn) { t.PromptTokenIDs, t.Train = nil, false },
	}
	for why, edit := range cases {
		t.Run(string(why), func(t *testing.T) {
			t.Parallel()

			odd := with(sampled(2, ids{50}, ids{51}), edit)
			got := build(t, sequence.Choice{}, sampled(1, ids{1, 2}, ids{3}), odd, sampled(3, ids{1, 2, 3, 4}, ids{5}))
			require.Len(t, got.Sequences, 1)
			require.Equal(t, ids{1, 2, 3, 4, 5}, got.Sequences[0].TokenIDs)
			require.Equal(t, map[sequence.Skip]int{why: 1}, got.Skipped)
			require.Equal(t, 3, got.Turns)
		})
	}
}

// The tokens of a turn that is not trained on stay in the sequence, masked, because later prompts contain them.
func TestUntrainedTurnIsMasked(t *testing.T) {
	t.Parallel()
	odd := with(sampled(2, ids{1, 2, 3, 4}, ids{5}), func(t *rollout.Turn) { t.Train, t.PerTokenLogps = false, nil })
	got := build(t, sequence.Choice{}, sampled(1, ids{1, 2}, ids{3}), odd, sampled(3, ids{1, 2, 3, 4, 5, 6}, ids{7}))
	require.Len(t, got.Sequences, 1)
	require.Equal(t, sequence.Mask{0, 0, 1, 0, 0, 0, 1}, got.Sequences[0].LossMask)
	require.False(t, got.Sequences[0].Spans[1].Train)
}

func TestSubagentsAreSeparate(t *testing.T) {
	t.Parallel()
	sub := with(sampled(2, ids{20}, ids{21, 22}), func(t *rollout.Turn) {
		t.Kind, t.Train, t.Lineage, t.Branch = rollout.KindSubagent, false, "a/b", rollout.BranchSubagent
	})
	got := build(t, sequence.Choice{Subagents: sequence.SeparateSubagents}, sampled(1, ids{1}, ids{3}), sub, sampled(3, ids{1, 3, 4}, ids{5}))
	require.Len(t, got.Sequences, 2)
	require.Equal(t, "a/b", got.Sequences[1].Lineage)
	require.Equal(t, 2, got.Sequences[1].Trained())
	flawed := with(sub, func(t *rollout.Turn) { t.Flaws = []string{"unknown"} })
	untrained := build(t, sequence.Choice{Subagents: sequence.SeparateSubagents}, flawed)
	require.Zero(t, untrained.Trained())

	_, err := sequence.Build(nil, sequence.Choice{Subagents: "all"})
	require.True(t, fault.Is(err, fault.Invalid))
}

// A summary is a sequence of its own by choice. The conversation before and after it is the same in both cases.
func TestSummariesAreTrainedByChoice(t *testing.T) {
	t.Parallel()

	summary := with(sampled(2, ids{1, 2, 3, 7}, ids{8, 9}), func(t *rollout.Turn) {
		t.Kind, t.Train, t.Branch = rollout.KindSummary, false, rollout.BranchAuxiliary
	})
	after := with(sampled(3, ids{1, 8, 9}, ids{4}), func(t *rollout.Turn) { t.Branch = rollout.BranchCompacted })
	turns := []rollout.Turn{sampled(1, ids{1, 2}, ids{3}), summary, after, sampled(4, ids{1, 8, 9, 4, 6}, ids{5})}

	dropped := build(t, sequence.Choice{}, turns...)
	require.Equal(t, map[sequence.Skip]int{sequence.SkipSummary: 1}, dropped.Skipped)

	trained := build(t, sequence.Choice{Summaries: sequence.TrainSummaries}, turns...)
	require.Empty(t, trained.Skipped)
	require.Len(t, trained.Sequences, 3)

	own := trained.Sequences[1]
	require.Equal(t, rollout.BranchAuxiliary, own.Branch)
	require.Equal(t, ids{1, 2, 3, 7, 8, 9}, own.TokenIDs)
	require.Equal(t, sequence.Mask{0, 0, 0, 0, 1, 1}, own.LossMask)
	require.Equal(t, dropped.Sequences, []sequence.Sequence{trained.Sequences[0], trained.Sequences[2]})

	lost := with(summary, func(t *rollout.Turn) { t.Delivered = false })
	without := build(t, sequence.Choice{Summaries: sequence.TrainSummaries}, turns[0], lost)
	require.Equal(t, map[sequence.Skip]int{sequence.SkipUndelivered: 1}, without.Skipped)

	_, err := sequence.Build(nil, sequence.Choice{Summaries: "keep"})
	require.ErrorContains(t, err, `summaries: must be drop or train, got "keep"`)
}

// A turn's rewards are in its span; those of turns in no sequence are in none.
func TestRewardsOfTurns(t *testing.T) {
	t.Parallel()

	title := with(sampled(2, ids{9}, ids{9}), func(t *rollout.Turn) { t.Kind, t.Train = rollout.KindTitle, false })
	got := build(t, sequence.Choice{}, sampled(1, ids{1}, ids{2}), title, sampled(3, ids{1, 2, 3}, ids{4}), sampled(4, ids{7}, ids{8}))
	got.SetRewards([]rollout.TurnReward{
		{Turn: 1, Reward: -1}, {Turn: 1, Name: "a", Reward: 2}, {Turn: 2, Reward: 5}, {Turn: 4, Name: "a"}, {Turn: 9, Reward: 5},
	})
	require.Len(t, got.Sequences, 2)

	first, last := got.Sequences[0].Spans, got.Sequences[1].Spans
	require.InDelta(t, -1, *first[0].Reward, 0)
	require.Equal(t, map[string]float64{"a": 2}, first[0].Rewards)
	require.Nil(t, first[1].Reward)
	require.Nil(t, first[1].Rewards)
	require.Nil(t, last[0].Reward)
	require.Equal(t, map[string]float64{"a": 0}, last[0].Rewards, "a reward of 0 is a reward")
}

func TestMarksOfSpans(t *testing.T) {
	t.Parallel()
	cut := with(sampled(1, ids{1}, ids{2, 3}), func(t *rollout.Turn) { t.FinishReason = "length" })
	got := build(
		t,
		sequence.Choice{},
		cut,
		sampled(2, ids{1, 2, 3, 3, 4}, ids{5, 9}),
		sampled(3, ids{1, 2, 3, 3, 4, 5, 9, 9, 6}, ids{7}),
	)
	spans := got.Sequences[0].Spans
	require.True(t, spans[0].Truncated)
	require.False(t, spans[0].DoubledEnd, "a truncated reply has no end of turn")
	require.True(t, spans[1].DoubledEnd)
	require.False(t, spans[2].DoubledEnd)
}

func TestUnequalListsAreRefused(t *testing.T) {
	t.Parallel()
	short := with(sampled(4, ids{1}, ids{2, 3}), func(t *rollout.Turn) { t.PerTokenLogps = t.PerTokenLogps[:1] })
	_, err := sequence.Build([]rollout.Turn{short}, sequence.Choice{})
	require.True(t, fault.Is(err, fault.Invalid))
	require.ErrorContains(t, err, "turn 4 must have one logprob per token id, got 2 ids and 1 logprobs")
}

func TestNothingToTrainOn(t *testing.T) {
	t.Parallel()
	got := build(t, sequence.Choice{})
	require.Zero(t, got.Trained())
	out, err := json.Marshal(got)
	require.NoError(t, err)
	require.JSONEq(t, `{"sequences":[],"skipped":{},"turns":0}`, string(out))
}

func TestReadATrace(t *testing.T) {
	t.Parallel()

	var lines bytes.Buffer

	enc := json.NewEncoder(&lines)

	turns := []rollout.Turn{sampled(1, ids{1, 2}, ids{3}), sampled(2, ids{1, 2, 3, 4}, ids{5})}
	for _, turn := range turns {
		require.NoError(t, enc.Encode(turn))
	}

	got, err := sequence.Read(bytes.NewReader(lines.Bytes()), sequence.Choice{})
	require.NoError(t, err)
	require.Equal(t, build(t, sequence.Choice{}, turns...), got)

	_, err = sequence.Read(io.MultiReader(&lines, strings.NewReader("{")), sequence.Choice{})
	require.ErrorContains(t, err, "trace after 2 turns")
}

// An agent that changes its conversation at every turn makes one sequence per turn. Their total size is bounded.
func TestReadIsBounded(t *testing.T) {
	t.Parallel()

	read, write := io.Pipe()
	go func() {
		enc := json.NewEncoder(write)
		// until the reader is closed
		for n := 1; enc.Encode(sampled(n, append(ids{int32(n)}, make(ids, 1<<20)...), ids{1})) == nil; n++ {
		}
	}()

	_, err := sequence.Read(read, sequence.Choice{})
	require.NoError(t, read.Close())
	require.True(t, fault.Is(err, fault.Exhausted))
}

// BenchmarkBuild joins 100 turns that grow to 120,000 tokens.
func BenchmarkBuild(b *testing.B) {
	const turns, context = 100, 120_000

	all := make(ids, context)
	for i := range all {
		all[i] = int32(i)
	}

	var list []rollout.Turn

	for n := range turns {
		end := context / turns * (n + 1)
		list = append(list, sampled(n+1, all[:end-200], all[end-200:end]))
	}

	b.ReportAllocs()

	for b.Loop() {
		got, err := sequence.Build(list, sequence.Choice{})
		require.NoError(b, err)
		require.Len(b, got.Sequences, 1)
	}
}
