package sequence_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/trajectory/sequence"
)

func TestTrains(t *testing.T) {
	t.Parallel()

	for _, tc := range []struct {
		name   string
		change func(*rollout.Turn)
		want   bool
	}{
		{"a whole turn of the agent", func(*rollout.Turn) {}, true},
		{"cut at the token limit", func(t *rollout.Turn) { t.FinishReason = "length" }, true},
		{"after a break", func(t *rollout.Turn) { t.PrefixBreak = &rollout.PrefixBreak{} }, true},
		{"a subagent's", func(t *rollout.Turn) { t.Kind = rollout.KindSubagent }, false},
		{"a title", func(t *rollout.Turn) { t.Kind = rollout.KindTitle }, false},
		{"a summary", func(t *rollout.Turn) { t.Kind = rollout.KindSummary }, false},
		{"aborted", func(t *rollout.Turn) { t.Broken = "aborted: by hand" }, false},
		{"the agent never got it", func(t *rollout.Turn) { t.Delivered = false }, false},
		{"no prompt ids", func(t *rollout.Turn) { t.PromptTokenIDs = nil }, false},
		{"no completion ids", func(t *rollout.Turn) { t.CompletionTokenIDs, t.PerTokenLogps = nil, nil }, false},
		{"no logprobs", func(t *rollout.Turn) { t.PerTokenLogps = nil }, false},
		{"lists of unequal length", func(t *rollout.Turn) { t.PerTokenLogps = t.PerTokenLogps[:1] }, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()

			turn := rollout.Turn{
				Kind: rollout.KindAgent, Delivered: true, FinishReason: "stop",
				PromptTokenIDs: []int32{1}, CompletionTokenIDs: []int32{2, 3}, PerTokenLogps: []float64{-1, -2},
			}
			tc.change(&turn)
			require.Equal(t, tc.want, sequence.Trains(&turn))
		})
	}
}
