package rollout_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

func TestPriceOfUsage(t *testing.T) {
	t.Parallel()

	half, free := 1.5, 0.0

	used := rollout.Usage{PromptTokens: 1_000_000, CachedPromptTokens: 400_000, CompletionTokens: 200_000}
	for name, tc := range map[string]struct {
		price *rollout.Price
		used  rollout.Usage
		want  float64
	}{
		"not known":    {nil, used, 0},
		"nothing used": {&rollout.Price{Prompt: 3, Completion: 15}, rollout.Usage{}, 0},
		"no discount":  {&rollout.Price{Prompt: 3, Completion: 15}, used, 6},
		"a discount":   {&rollout.Price{Prompt: 3, Completion: 15, CachedPrompt: &half}, used, 5.4},
		"for nothing":  {&rollout.Price{Prompt: 3, Completion: 15, CachedPrompt: &free}, used, 4.8},
		"more than there was": {&rollout.Price{
			Prompt:       3,
			CachedPrompt: &free,
		}, rollout.Usage{PromptTokens: 5, CachedPromptTokens: 9}, 0},
	} {
		require.InDelta(t, tc.want, tc.price.Of(tc.used), 1e-9, name)
	}
}
