package traceindex_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/trajectory/sequence"
	"github.com/rolloutd/rolloutd/internal/trajectory/tokens"
	"github.com/rolloutd/rolloutd/internal/trajectory/traceindex"
)

// traceOf is a conversation of so many turns, each with output that the next request repeats, and with its tokens.
func traceOf(tb testing.TB, turns, output int, change func(*rollout.Turn)) []byte {
	tb.Helper()

	var (
		out      bytes.Buffer
		messages = []string{`{"role":"user","content":"go"}`}
		prompt   = []int32{1, 2, 3}
	)

	for n := range turns {
		t := rollout.Turn{
			Turn: n + 1, Kind: rollout.KindAgent, Lineage: "s", Branch: rollout.BranchRoot, Delivered: true, Train: true,
			Request:        json.RawMessage(`{"messages":[` + strings.Join(messages, ",") + `]}`),
			Response:       json.RawMessage(fmt.Sprintf(`{"choices":[{"message":{"role":"assistant","content":"turn %d"}}]}`, n+1)),
			PromptTokenIDs: prompt, ModelVersion: "v1",
		}
		for i := range int32(20) {
			t.CompletionTokenIDs = append(t.CompletionTokenIDs, i*7+int32(n))
			t.CompletionTokens = append(t.CompletionTokens, fmt.Sprint(" t", i*7+int32(n)))
			t.PerTokenLogps = append(t.PerTokenLogps, -float64(i)/3)
		}

		t.LossMask = rollout.NewMask(len(t.PromptTokenIDs), len(t.CompletionTokenIDs), true)

		if change != nil {
			change(&t)
		}

		line, err := json.Marshal(t)
		require.NoError(tb, err)
		out.Write(append(line, '\n'))

		messages = append(messages,
			fmt.Sprintf(`{"role":"assistant","content":"turn %d"}`, n+1),
			fmt.Sprintf(`{"role":"user","content":"%d %s"}`, n+1, strings.Repeat("x", output)))

		prompt = append(append([]int32{}, prompt...), t.CompletionTokenIDs...)
		for i := range output / 4 {
			prompt = append(prompt, int32(i))
		}
	}

	return out.Bytes()
}

var about = traceindex.Trace{Size: 7, Tail: "sha256:7"}

func built(tb testing.TB, trace []byte) []byte {
	tb.Helper()

	var blob bytes.Buffer
	require.NoError(tb, traceindex.Build(bytes.NewReader(trace), about, &blob))

	return blob.Bytes()
}

func opened(tb testing.TB, blob []byte) *traceindex.Index {
	tb.Helper()

	index, err := traceindex.Open(bytes.NewReader(blob), int64(len(blob)), about)
	require.NoError(tb, err)

	return index
}

// Windows of an index are those of the trace, wherever they begin, over the borders of blocks.
func TestTokensAreThoseOfTheTrace(t *testing.T) {
	t.Parallel()

	trace := traceOf(t, 60, 2000, func(t *rollout.Turn) {
		if t.Turn == 40 {
			// a new sequence
			t.PromptTokenIDs = append([]int32{9}, t.PromptTokenIDs...)
		}
	})
	index := opened(t, built(t, trace))

	for _, w := range []tokens.Window{
		{Limit: 100},
		{Start: 4000, Limit: 200},
		{Start: 4095, Limit: 10_000},
		{Start: 1 << 20, Limit: 5},
		{Sequence: 1, Start: 8190, Limit: 9000},
		{Sequence: 2, Limit: 1},
	} {
		want, wantErr := tokens.Read(bytes.NewReader(trace), sequence.Choice{}, w)
		got, err := index.Tokens(sequence.Choice{}, w)
		require.Equal(t, fault.KindOf(wantErr), fault.KindOf(err))

		wantJSON, _ := json.Marshal(want)
		gotJSON, _ := json.Marshal(got)
		require.JSONEq(t, string(wantJSON), string(gotJSON), "%+v", w)
	}
}

// Sequences of subagents are not in the index. Without subagents there are none to miss.
func TestSubagents(t *testing.T) {
	t.Parallel()

	alone := opened(t, built(t, traceOf(t, 2, 10, nil)))
	_, err := alone.Tokens(sequence.Choice{Subagents: sequence.SeparateSubagents}, tokens.Window{Limit: 1})
	require.NoError(t, err)
	_, err = alone.Tokens(sequence.Choice{Subagents: "all"}, tokens.Window{Limit: 1})
	require.True(t, fault.Is(err, fault.Invalid), err)

	with := opened(t, built(t, traceOf(t, 2, 10, func(t *rollout.Turn) { t.Kind = rollout.KindSubagent })))
	_, err = with.Tokens(sequence.Choice{Subagents: sequence.SeparateSubagents}, tokens.Window{Limit: 1})
	require.ErrorIs(t, err, traceindex.ErrOtherChoice)
	view, err := with.Tokens(sequence.Choice{}, tokens.Window{Limit: 1})
	require.NoError(t, err)
	require.Equal(t, 2, view.Skipped[sequence.SkipSubagent])

	_, err = alone.Tokens(sequence.Choice{Summaries: sequence.TrainSummaries}, tokens.Window{Limit: 1})
	require.ErrorIs(t, err, traceindex.ErrOtherChoice)
}

// A trace whose tokens are wrong can still be read as a conversation.
func TestTokensThatAreRefused(t *testing.T) {
	t.Parallel()

	index := opened(t, built(t, traceOf(t, 3, 10, func(t *rollout.Turn) { t.PerTokenLogps = t.PerTokenLogps[1:] })))
	_, err := index.Tokens(sequence.Choice{}, tokens.Window{Limit: 1})
	require.True(t, fault.Is(err, fault.Invalid), err)
	require.ErrorContains(t, err, "one logprob per token")

	page, err := index.Turns(1, 10)
	require.NoError(t, err)
	require.Len(t, page.Turns, 2)
}

// An index of another trace, another version, or with a damaged byte is unusable, and says nothing false.
func TestUnusable(t *testing.T) {
	t.Parallel()

	trace := traceOf(t, 6, 40_000, nil)
	blob := built(t, trace)
	whole := opened(t, blob)

	_, err := traceindex.Open(bytes.NewReader(blob), int64(len(blob)), traceindex.Trace{Size: 8, Tail: about.Tail})
	require.ErrorIs(t, err, traceindex.ErrUnusable)
	require.True(t, fault.Is(err, fault.Internal), err)

	// its sequences are of other rules
	earlier := bytes.ReplaceAll(blob, []byte("traceix\x02"), []byte("traceix\x01"))
	_, err = traceindex.Open(bytes.NewReader(earlier), int64(len(earlier)), about)
	require.ErrorContains(t, err, "another version")

	for _, size := range []int{0, 10, len(blob) / 2, len(blob) - 1} {
		_, err := traceindex.Open(bytes.NewReader(blob[:size]), int64(size), about)
		require.ErrorIs(t, err, traceindex.ErrUnusable, "%d bytes", size)
	}

	for at := 0; at < len(blob); at += len(blob)/20 + 1 {
		damaged := bytes.Clone(blob)
		damaged[at] ^= 0x40
		refused := false

		index, err := traceindex.Open(bytes.NewReader(damaged), int64(len(damaged)), about)
		if refused = errors.Is(err, traceindex.ErrUnusable); refused {
			continue
		}

		require.NoError(t, err)

		for turn := range 6 {
			for part := range 3 {
				want, _ := whole.Part(turn+1, part, 0)
				got, err := index.Part(turn+1, part, 0)
				refused = refused || errors.Is(err, traceindex.ErrUnusable)
				require.True(t, err != nil || got == want)
			}
		}

		for start := 0; ; start += tokens.MaxTokens {
			view, err := index.Tokens(sequence.Choice{}, tokens.Window{Start: start, Limit: tokens.MaxTokens})
			refused = refused || errors.Is(err, traceindex.ErrUnusable)

			if err != nil || start >= view.Sequences[0].Length {
				break
			}
		}

		require.True(t, refused, "byte %d", at)
	}
}

func FuzzOpen(f *testing.F) {
	blob := built(f, traceOf(f, 3, 100, nil))
	f.Add(blob)
	f.Add(blob[:len(blob)-1])
	f.Fuzz(func(t *testing.T, blob []byte) {
		index, err := traceindex.Open(bytes.NewReader(blob), int64(len(blob)), about)
		if err != nil {
			return
		}

		_, _ = index.Turns(0, 10)
		_, _ = index.Part(1, 0, 5)
		_, _ = index.Tokens(sequence.Choice{}, tokens.Window{Start: 10, Limit: 100})
	})
}
