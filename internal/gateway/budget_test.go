package gateway_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

func TestBudgets(t *testing.T) {
	t.Parallel()

	for _, tc := range []struct {
		name   string
		limits rollout.Limits

		// calls that reach the endpoint; each has 3 prompt tokens and 2 completion tokens
		calls int
	}{
		{gatewayapi.BudgetTurns, rollout.Limits{Turns: 2}, 2},
		{gatewayapi.BudgetPromptTokens, rollout.Limits{PromptTokens: 7}, 3},
		{gatewayapi.BudgetCompletionTokens, rollout.Limits{CompletionTokens: 2}, 1},
		{gatewayapi.BudgetCost, rollout.Limits{Cost: 0.03}, 3}, // each call costs 0.011 dollars
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			h, e := newHost(t), newEngine(t, says(goodReply))
			r := h.route(e.URL)
			r.Limits = tc.limits
			r.Model.Price = &rollout.Price{Prompt: 1000, Completion: 4000}

			url := h.open(t, r)
			for range tc.calls {
				require.Equal(t, goodReply, send(t.Context(), url, "", streamed).body)
			}

			require.Empty(t, h.status(t, r.ID).BudgetSpent, "an agent that ends now has not gone over it")

			for _, body := range []string{streamed, unary} {
				got := send(t.Context(), url, "", body)
				require.Equal(t, 200, got.status)
				require.Contains(t, got.body, `"finish_reason":"stop"`)
			}

			require.Equal(t, tc.name, h.status(t, r.ID).BudgetSpent)
			require.Len(t, e.requests(), tc.calls)
			require.Len(t, h.turns(t, r.ID), tc.calls)
			require.InDelta(t, 0.011, h.turns(t, r.ID)[0].Usage.CostUSD, 1e-9)
			h.stop()
			h.start(t)
			require.Equal(t, tc.name, h.status(t, r.ID).BudgetSpent, "kept over a restart")
			require.Equal(t, tc.calls, h.status(t, r.ID).Turns)
			require.InDelta(t, 0.011*float64(tc.calls), h.status(t, r.ID).Usage.CostUSD, 1e-9)
		})
	}
}

// Calls in progress count, so that concurrent calls cannot exceed the budget together. Titles are not turns.
func TestTurnsBudgetCountsCallsInFlight(t *testing.T) {
	t.Parallel()
	h, hang := newHost(t), newHanging(halfReply(), goodReply[len(halfReply()):])
	e := newEngine(t, says(goodReply), hang.serve)
	r := h.route(e.URL)
	r.Limits.Turns = 1
	url := h.open(t, r)
	require.Equal(
		t,
		200,
		send(t.Context(), url, "", `{"messages":[{"role":"system","content":"You are a title generator."}]}`).status,
	)
	first := startSend(t, url, "", streamed)
	await(t, hang.begun)
	require.NotEqual(t, goodReply, send(t.Context(), url, "", streamed).body)
	close(hang.release)
	require.Equal(t, goodReply, await(t, first).body)
	require.Len(t, e.requests(), 2)
}

// A broken upstream request costs what the endpoint reported as its usage, with or without a complete reply
// after it. Cached tokens cost less.
func TestCostOfBrokenRequestsAndCachedPrompts(t *testing.T) {
	t.Parallel()

	const counts = `"usage":{"prompt_tokens":3,"completion_tokens":2`

	cached, price := 500.0, rollout.Price{Prompt: 1000, Completion: 4000}
	price.CachedPrompt = &cached
	broken := says(strings.Replace(goodReply, `"finish_reason":"stop"`, `"finish_reason":"abort"`, 1))
	h := newHost(t)
	r := h.route(
		newEngine(
			t,
			broken,
			says(strings.Replace(goodReply, counts, counts+`,"prompt_tokens_details":{"cached_tokens":2}`, 1)),
			broken,
		).URL,
	)
	r.Model.Price, r.Limits.Cost = &price, 0.02
	url := h.open(t, r)
	require.Equal(t, 200, send(t.Context(), url, "", streamed).status)

	used := rollout.Usage{Turns: 1, PromptTokens: 3, CachedPromptTokens: 2, CompletionTokens: 2}
	requireUsed := func(u rollout.Usage, cost float64) {
		t.Helper()
		require.InDelta(t, cost, u.CostUSD, 1e-9)
		u.CostUSD = 0
		require.Equal(t, used, u)
	}
	requireUsed(h.turns(t, r.ID)[0].Usage, 0.011+0.010)
	requireUsed(h.status(t, r.ID).Usage, 0.011+0.010)
	require.Contains(t, send(t.Context(), url, "", streamed).body, `"content":""`)
	require.Equal(t, gatewayapi.BudgetCost, h.status(t, r.ID).BudgetSpent)

	failing := h.route(newEngine(t, broken, answers(404, "{}")).URL)
	failing.ID, failing.SandboxID, failing.Model.Price = "r2.1", "r2.1", &price
	require.Equal(t, 400, send(t.Context(), h.open(t, failing), "", streamed).status)
	h.stop()
	h.start(t)
	requireUsed(h.status(t, r.ID).Usage, 0.011+0.010)

	used = rollout.Usage{}

	requireUsed(h.status(t, failing.ID).Usage, 0.011)
}
