package sequence_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/trajectory/sequence"
)

// piece is a token of the model's sequences with its turn and its index among the turn's sampled tokens.
type piece struct {
	id int32

	// -1: not trained on
	turn, at int
}

// modelOf applies the rules of docs/training.md in a simple way: it compares each prompt with all sequences of its
// lineage, those of the newest turns first. It returns the tokens of each sequence and the turn that sampled each.
func modelOf(turns []rollout.Turn, separate, summaries bool) (out [][]piece) {
	// in the order of their latest turns
	open := map[string][]int{}

	for n, t := range turns {
		agent := t.Kind == rollout.KindAgent

		sub := t.Kind == rollout.KindSubagent && separate

		sum := t.Kind == rollout.KindSummary && summaries
		if !agent && !sub && !sum || t.Broken != "" || !t.Delivered || len(t.PromptTokenIDs) == 0 ||
			len(t.CompletionTokenIDs) == 0 {
			continue
		}

		at := -1

		for _, i := range open[t.Lineage] {
			continues := !sum && len(out[i]) <= len(t.PromptTokenIDs)
			for k := 0; continues && k < len(out[i]); k++ {
				continues = out[i][k].id == t.PromptTokenIDs[k]
			}

			if continues {
				at = i
			}
		}

		if at < 0 {
			at = len(out)
			out = append(out, nil)
		}

		if !sum {
			open[t.Lineage] = append(slices.DeleteFunc(open[t.Lineage], func(i int) bool { return i == at }), at)
		}

		for _, id := range t.PromptTokenIDs[len(out[at]):] {
			out[at] = append(out[at], piece{id, -1, 0})
		}

		trained := t.Train ||
			(sub || sum) && t.Constrained == "" && len(t.Flaws) == 0 && len(t.PerTokenLogps) == len(t.CompletionTokenIDs)
		for i, id := range t.CompletionTokenIDs {
			p := piece{id, -1, 0}
			if trained {
				p = piece{id, n, i}
			}

			out[at] = append(out[at], p)
		}
	}

	return out
}

// randomTurns returns calls of a conversation that branches and is compacted, with retried, broken and
// undelivered calls and few distinct tokens.
func randomTurns(r *rand.Rand) (turns []rollout.Turn) {
	kinds := []rollout.TurnKind{
		rollout.KindAgent,
		rollout.KindAgent,
		rollout.KindAgent,
		rollout.KindSubagent,
		rollout.KindTitle,
		rollout.KindSummary,
		rollout.KindForeign,
	}
	tokens := func(n int) []int32 {
		out := []int32{}
		for range n {
			out = append(out, int32(r.IntN(3)))
		}

		return out
	}

	received := [][]int32{nil}
	for n := range 1 + r.IntN(12) {
		before := received[len(received)-1-r.IntN(min(len(received), 3))]
		// a template that omits the end of turn
		before = before[:max(0, len(before)-r.IntN(2)*r.IntN(3))]

		t := rollout.Turn{
			Turn:               n + 1,
			Kind:               kinds[r.IntN(len(kinds))],
			Lineage:            []string{"a", "a", "b"}[r.IntN(3)],
			Delivered:          r.IntN(8) > 0,
			PromptTokenIDs:     append(append([]int32{}, before...), tokens(r.IntN(4))...),
			CompletionTokenIDs: tokens(r.IntN(4)),
			FinishReason:       []string{"stop", "length", "tool_calls"}[r.IntN(3)],
			Request:            json.RawMessage(`{}`),
		}
		switch r.IntN(12) {
		case 0:
			t.Broken = "cut"
		case 1:
			t.Constrained = "response_format"
		case 2:
			t.Flaws = []string{"x"}
		case 3:
			t.PromptTokenIDs = nil
		}

		for i := range t.CompletionTokenIDs {
			t.PerTokenLogps = append(t.PerTokenLogps, -float64(100*n+i+1))
		}

		if r.IntN(10) == 0 {
			t.PerTokenLogps = nil
		}

		t.Train = sequence.Trains(&t) && r.IntN(10) > 0
		turns = append(turns, t)
		received = append(received, append(append([]int32{}, t.PromptTokenIDs...), t.CompletionTokenIDs...))
	}

	return turns
}

// In random traces, every sampled token to train on is in exactly one sequence, at its position, with its
// own log probability. No other token is trained on.
func TestSameAsTheRules(t *testing.T) {
	t.Parallel()

	for seed := range uint64(5_000) {
		r := rand.New(rand.NewPCG(seed, 7))
		turns := randomTurns(r)
		separate, summaries := r.IntN(2) == 0, r.IntN(2) == 0

		choice := sequence.Choice{Subagents: sequence.DropSubagents}
		if separate {
			choice.Subagents = sequence.SeparateSubagents
		}

		if summaries {
			choice.Summaries = sequence.TrainSummaries
		}

		got, err := sequence.Build(turns, choice)
		require.NoError(t, err)

		want := modelOf(turns, separate, summaries)
		require.Len(t, got.Sequences, len(want), "seed %d", seed)

		for i, s := range got.Sequences {
			about := fmt.Sprintf("seed %d, sequence %d", seed, i)
			require.Len(t, s.TokenIDs, len(want[i]), about)
			require.Len(t, s.LossMask, len(want[i]), about)
			require.Len(t, s.Logprobs, len(want[i]), about)

			for k, p := range want[i] {
				mask, logprob := uint8(0), 0.0
				if p.turn >= 0 {
					mask, logprob = 1, turns[p.turn].PerTokenLogps[p.at]
				}

				require.Equal(t, p.id, s.TokenIDs[k], about)
				require.Equal(t, mask, s.LossMask[k], about)
				require.InDelta(t, logprob, s.Logprobs[k], 0, about)
			}
		}
	}
}
