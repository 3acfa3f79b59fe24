package envserver_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/trajectory"
)

// The result of 16 turns takes at most twice the bytes that the reference sends, although it also has the
// token ids of the prompts. The reference sends all messages in each turn, and the result three times in a
// frame.
func TestSizeOfAResult(t *testing.T) {
	t.Parallel()
	// words in the output of a tool call
	const calls, words = 16, 400

	messages := []any{map[string]any{
		"role":    "system",
		"content": strings.Repeat("Do as the user asks. ", 400),
	}, map[string]any{"role": "user", "content": "fix it"}}
	// tokens
	prompt := 2500

	var (
		compactor trajectory.Compactor
		ours      []rollout.CompactTurn
		theirs    []any
	)

	for n := range calls {
		ids := make([]int32, prompt+100)
		for i := range ids {
			ids[i] = int32(i * 7919 % 150_000)
		}

		names, logprobs := make([]string, 100), make([]float64, 100)
		for i := range names {
			names[i], logprobs[i] = " token", -float64(i+1)/4096
		}

		request := map[string]any{
			"model":        "m",
			"messages":     messages,
			"max_tokens":   4096,
			"logprobs":     true,
			"top_logprobs": 5,
			"stream":       true,
		}
		raw, err := json.Marshal(request)
		require.NoError(t, err)

		call := map[string]any{
			"id":       fmt.Sprint("call", n),
			"type":     "function",
			"function": map[string]any{"name": "bash", "arguments": `{"command":"cat main.go"}`},
		}
		said := map[string]any{"role": "assistant", "content": "", "tool_calls": []any{call}}
		response, err := json.Marshal(map[string]any{"choices": []any{map[string]any{"message": said}}})
		require.NoError(t, err)

		ours = append(ours, compactor.Compact(rollout.Turn{
			Turn:               n + 1,
			Kind:               rollout.KindAgent,
			Branch:             rollout.BranchRoot,
			Delivered:          true,
			Train:              true,
			FinishReason:       "tool_calls",
			UpstreamStatus:     200,
			PromptTokenIDs:     ids[:prompt],
			CompletionTokenIDs: ids[prompt:],
			CompletionTokens:   names,
			PerTokenLogps:      logprobs,
			Request:            raw,
			Response:           response,
		}))
		theirs = append(theirs, map[string]any{
			"turn":                 n + 1,
			"finish_reason":        "tool_calls",
			"completion_tokens":    names,
			"completion_token_ids": ids[prompt:],
			"per_token_logps":      logprobs,
			"latency_s":            1.5,
			"timestamp":            1767323045.5,
			"upstream_status":      200,
			"upstream_error":       nil,
			"request":              request,
			"response":             map[string]any{"finish_reason": "tool_calls", "usage": nil},
		})
		messages = append(messages[:len(messages):len(messages)], said, map[string]any{
			"role":         "tool",
			"tool_call_id": call["id"],
			"content":      strings.Repeat("word ", words),
		})
		prompt += words + 130
	}

	r := start(t)
	r.fake.turns = ours
	frame := r.dial("/ws").ask(call("run_rollout", task("r", "fix it")))
	require.Len(
		t,
		valueAt(
			t,
			object(t, valueAt(t, object(t, frame), "data", "observation", "result", "content", 0, "text").(string)),
			"proxy_turns",
		),
		calls,
	)

	text, err := json.Marshal(map[string]any{"proxy_turns": theirs})
	require.NoError(t, err)
	reference, err := json.Marshal(map[string]any{
		"content":            []any{map[string]any{"type": "text", "text": string(text)}},
		"structured_content": map[string]any{"result": string(text)},
		"data":               string(text),
	})
	require.NoError(t, err)
	t.Logf("%d bytes; the reference %d", len(frame), len(reference))
	require.LessOrEqual(t, len(frame), 2*len(reference))
}
