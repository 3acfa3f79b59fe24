package sequence_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/trajectory/sequence"
)

// A rollout without training data says why; one with some says nothing.
func TestUntrained(t *testing.T) {
	t.Parallel()

	whole := rollout.Turn{
		Kind: rollout.KindAgent, API: "messages", Delivered: true,
		PromptTokenIDs: []int32{1}, CompletionTokenIDs: []int32{2}, PerTokenLogps: []float64{-1},
	}
	with := func(change func(*rollout.Turn)) rollout.Turn {
		turn := whole
		change(&turn)

		return turn
	}
	noIDs := with(func(t *rollout.Turn) { t.PromptTokenIDs = nil })
	title := with(func(t *rollout.Turn) { t.Kind, t.Train = rollout.KindTitle, true })

	for want, turns := range map[string][]rollout.Turn{
		"": {noIDs, with(func(t *rollout.Turn) { t.Train = true })},
		"none of the agent's 3 model calls can be trained on: 2 without token ids (API messages), 1 without a whole reply": {
			noIDs, with(func(t *rollout.Turn) { t.Broken = "x" }), noIDs, title,
		},
		"none of the agent's 2 model calls can be trained on: 1 sampled under a grammar, 1 whose reply did not reach the agent": {
			with(func(t *rollout.Turn) { t.Constrained = "response_format" }), with(func(t *rollout.Turn) { t.Delivered = false }),
		},
		"none of the agent's 2 model calls can be trained on: 1 of an evaluation, 1 without logprobs of all tokens": {
			with(func(t *rollout.Turn) { t.Flaws = []string{"audit: x"} }), with(func(t *rollout.Turn) { t.PerTokenLogps = nil }),
		},
		"none of the agent's 3 model calls can be trained on: 2 with a flaw (log probabilities are raw), 1 without a sampling mask (none)": {
			with(func(t *rollout.Turn) { t.Flaws = []string{"call_cut: x", "log probabilities are raw"} }),
			with(func(t *rollout.Turn) { t.Flaws = []string{"log probabilities are raw", "call_cut: x"} }),
			with(func(t *rollout.Turn) { t.SamplingMask = &rollout.SamplingMask{Missing: "none"} }),
		},
	} {
		var u sequence.Untrained
		for _, turn := range turns {
			u.Add(&turn)
		}

		require.Equal(t, want, u.String())
	}

	require.Empty(t, (&sequence.Untrained{}).String())
}
