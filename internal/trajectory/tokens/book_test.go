package tokens_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/trajectory/sequence"
	"github.com/rolloutd/rolloutd/internal/trajectory/tokens"
)

// turn returns a turn of the agent whose reply has the given texts.
func turn(number int, prompt, ids []int32, texts ...string) rollout.Turn {
	t := rollout.Turn{
		Turn: number, Kind: rollout.KindAgent, Lineage: "a", Branch: rollout.BranchRoot, Delivered: true, Train: true,
		PromptTokenIDs: prompt, CompletionTokenIDs: ids, CompletionTokens: texts, ModelVersion: "v1",
	}
	for i := range ids {
		t.PerTokenLogps = append(t.PerTokenLogps, -float64(number)-float64(i)/10)
	}

	return t
}

func read(t *testing.T, w tokens.Window, turns ...rollout.Turn) (tokens.View, error) {
	t.Helper()

	var lines strings.Builder

	for _, turn := range turns {
		line, err := json.Marshal(turn)
		require.NoError(t, err)
		lines.Write(append(line, '\n'))
	}

	return tokens.Read(strings.NewReader(lines.String()), sequence.Choice{}, w)
}

// text returns tokens as texts, with * where trained and #id where there is no text.
func text(list []tokens.Token) string {
	var out []string

	for _, token := range list {
		s := "#"
		if token.Text != nil {
			s = *token.Text
		}

		if token.Trained {
			s += "*"
		}

		out = append(out, s)
	}

	return strings.Join(out, " ")
}

type ids = []int32

// A window has the tokens as they were sampled. A token of a prompt has the text of a sampled token of its id.
func TestWindow(t *testing.T) {
	t.Parallel()

	first := turn(1, ids{1, 2}, ids{3, 4}, "three", "four")
	second := turn(2, ids{1, 2, 3, 4, 5, 4}, ids{6, 7}, "six", "seven")
	second.Train = false

	view, err := read(t, tokens.Window{Limit: 100}, first, second)
	require.NoError(t, err)
	require.Equal(t, "# # three* four* # four six seven", text(view.Tokens))
	require.Equal(t, []tokens.Sequence{{
		Lineage: "a", Branch: rollout.BranchRoot, Length: 8, Sampled: 4, Trained: 2, FirstTurn: 1, LastTurn: 2, End: sequence.EndOfTrace,
	}}, view.Sequences)
	require.Equal(t, []int{0, 0, 0, 1, 2, 1, 0, 0}, view.Histogram, "of all sampled tokens, trained or not")
	require.Equal(t, tokens.Unlikely{At: 7, Logprob: -2.1}, view.Least[0])
	require.InDelta(t, -2.1, *view.Tokens[7].Logprob, 1e-9)
	require.Nil(t, view.Tokens[0].Logprob)

	view, err = read(t, tokens.Window{Start: 3, Limit: 2}, first, second)
	require.NoError(t, err)
	require.Equal(t, "four* #", text(view.Tokens))

	_, err = read(t, tokens.Window{Sequence: 1, Limit: 1}, first, second)
	require.True(t, fault.Is(err, fault.NotFound), err)

	view, err = read(t, tokens.Window{Limit: 1})
	require.NoError(t, err)
	require.Empty(t, view.Sequences)
	require.Empty(t, view.Tokens)
}

// An engine that gives ids in place of texts, or texts that do not match the ids, leaves tokens without texts.
func TestTokensWithoutTexts(t *testing.T) {
	t.Parallel()

	for name, texts := range map[string][]string{"ids": {"token_id:3", "token_id:4"}, "too few": {"three"}, "none": {}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			view, err := read(t, tokens.Window{Limit: 10}, turn(1, ids{1, 2}, ids{3, 4}, texts...))
			require.NoError(t, err)
			require.Equal(t, "# # #* #*", text(view.Tokens))
		})
	}
}

// A break shows both spellings, how far they differ, and the cause.
func TestBreaks(t *testing.T) {
	t.Parallel()

	first := turn(1, ids{1, 2}, ids{10, 11, 20, 21, 22}, "he", "llo", " a", " b", " c")
	spelled := turn(3, ids{90}, ids{12}, "hello")

	for name, c := range map[string]struct {
		prompt            ids
		cause             tokens.Cause
		sampled, rendered int
	}{
		"the same text in other tokens": {ids{1, 2, 12, 20, 21, 22, 5}, tokens.Retokenized, 2, 1},
		"another text":                  {ids{1, 2, 99, 20, 21, 22, 5}, tokens.Rendered, 2, 1},
		"the reply left out":            {ids{1, 2, 5}, tokens.Rendered, 0, 0},
		"another prompt":                {ids{1, 3, 10, 11, 20, 21, 22}, tokens.PromptChanged, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			second := turn(2, c.prompt, ids{30}, "x")
			second.Fallback = "template: no ids"
			spelled := spelled
			spelled.Lineage = "other"

			view, err := read(t, tokens.Window{Limit: 3}, first, second, spelled)
			require.NoError(t, err)

			brk := view.Break
			require.Equal(t, c.cause, brk.Cause)
			require.Equal(t, []int{c.sampled, c.rendered}, []int{brk.SampledDiffer, brk.RenderedDiffer})
			require.Equal(t, []int{2, 1}, []int{brk.Turn, brk.Next})
			require.Equal(t, "template: no ids", brk.Fallback)

			if c.cause == tokens.Retokenized {
				require.Equal(t, "# #", text(brk.Before))
				require.Equal(t, "he* llo* a* b* c*", strings.ReplaceAll(text(brk.Sampled), "  ", " "))
				require.True(t, strings.HasPrefix(text(brk.Rendered), "hello "), text(brk.Rendered))
			}
		})
	}

	compacted := turn(2, ids{7, 8}, ids{30}, "x")
	compacted.Branch = rollout.BranchCompacted
	view, err := read(t, tokens.Window{Limit: 3}, first, compacted)
	require.NoError(t, err)
	require.Equal(t, tokens.Compacted, view.Break.Cause)
}

// A sequence is broken by the first one that begins after its last turn, and not by a conversation beside it.
func TestBreakBesideAnotherConversation(t *testing.T) {
	t.Parallel()

	view, err := read(
		t, tokens.Window{Limit: 3},
		turn(1, ids{1, 2}, ids{3}), turn(2, ids{8}, ids{9}), turn(3, ids{1, 2, 3, 4}, ids{5}), turn(4, ids{1, 2, 7, 7}, ids{6}),
	)
	require.NoError(t, err)
	require.Len(t, view.Sequences, 3)
	require.Equal(t, []int{4, 2, 2}, []int{view.Break.Turn, view.Break.Next, view.Break.At})
}
