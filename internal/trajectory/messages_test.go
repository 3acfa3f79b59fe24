package trajectory_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/trajectory"
)

// conversation returns the turns of an agent whose prompt grows by two messages per turn, after a title.
func conversation(turns int) []rollout.Turn {
	system := strings.Repeat("You are an agent. ", 1000)
	messages := fmt.Sprintf(`{"role":"system","content":%q},{"role":"user","content":"do it"}`, system)

	out := []rollout.Turn{{
		Turn:    1,
		Kind:    rollout.KindTitle,
		Lineage: "s",
		Request: json.RawMessage(`{"messages":[{"role":"system","content":"You are a title generator."}]}`),
	}}
	for i := range turns {
		out = append(out, rollout.Turn{
			Turn:         i + 2,
			Kind:         rollout.KindAgent,
			Lineage:      "s",
			FinishReason: "tool_calls",
			Request: json.RawMessage(
				`{"model":"m","messages":[` + messages + `],"tools":[{"type":"function","function":{"name":"bash","parameters":{"type":"object"}}}]}`,
			),
			Response: json.RawMessage(
				`{"choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"bash","arguments":"{}"}}]},"logprobs":{"content":[]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":1}}`,
			),
		})
		messages += fmt.Sprintf(
			`,{"role":"assistant","content":"call %d"},{"role":"tool","content":%q}`,
			i,
			strings.Repeat("x", 500),
		)
	}

	return out
}

// asJSON returns a turn's request and response as a client decodes them.
func asJSON(t *testing.T, turn rollout.CompactTurn) (request, response map[string]any) {
	t.Helper()

	raw, err := json.Marshal([]any{turn.Request, turn.Response})
	require.NoError(t, err)

	var both []map[string]any
	require.NoError(t, json.Unmarshal(raw, &both))

	return both[0], both[1]
}

// A delta has each message once. It has what the filters of trainers need: the calls of a reply, and the
// system message by which they distinguish an agent's turns from its titles.
func TestMessagesAsDeltas(t *testing.T) {
	t.Parallel()

	var (
		c     trajectory.Compactor
		first any
	)

	for i, turn := range conversation(16) {
		request, response := asJSON(t, c.Compact(turn))
		messages := request["messages"].([]any)
		system := messages[0].(map[string]any)
		require.Equal(t, "system", system["role"])

		if turn.Kind == rollout.KindTitle {
			require.Equal(t, "You are a title generator.", system["content"], "a short one stays as it is")
			require.NotContains(t, request, "tools")

			continue
		}

		if first == nil {
			first = system["content"]

			require.Len(t, messages, 2)
			require.NotContains(t, request, "messages_before")
		} else {
			require.Len(t, messages, 3, "the system message, and the two that are new")
			require.EqualValues(t, 2*(i-1), request["messages_before"])
		}

		require.Equal(t, first, system["content"])
		require.Less(t, len(system["content"].(string)), 300)
		require.Equal(t, []any{map[string]any{
			"type":     "function",
			"function": map[string]any{"name": "bash"},
		}}, request["tools"])

		choice := response["choices"].([]any)[0].(map[string]any)
		require.NotContains(t, choice, "logprobs")
		call := choice["message"].(map[string]any)["tool_calls"].([]any)[0].(map[string]any)
		require.Equal(t, "bash", call["function"].(map[string]any)["name"])
	}
}

// The delta of a changed conversation has all its messages.
func TestDeltaOfAChangedConversation(t *testing.T) {
	t.Parallel()

	var c trajectory.Compactor

	turns := conversation(3)
	turns[2], turns[3] = turns[3], turns[2]
	c.Compact(turns[1])
	c.Compact(turns[2])
	request, _ := asJSON(t, c.Compact(turns[3]))
	require.NotContains(t, request, "messages_before")
	require.Len(t, request["messages"], 4)
}

func TestMessagesFullAndNone(t *testing.T) {
	t.Parallel()

	full, none := trajectory.Compactor{
		Messages: rollout.MessagesFull,
	}, trajectory.Compactor{
		Messages: rollout.MessagesNone,
	}
	for i, turn := range conversation(3)[1:] {
		request, _ := asJSON(t, full.Compact(turn))
		require.Len(t, request["messages"], 2+2*i)
		require.Greater(t, len(request["messages"].([]any)[0].(map[string]any)["content"].(string)), 1000)
		request, response := asJSON(t, none.Compact(turn))
		require.Equal(t, map[string]any{"model": "m"}, request)
		require.Contains(t, response, "choices")
	}
}

// The turns of a result take at most twice the bytes of those of the reference, which have all messages of
// each prompt but no prompt ids.
func TestSizeOfSixteenTurns(t *testing.T) {
	t.Parallel()
	// bytes of text
	const perToken = 4

	var c trajectory.Compactor

	ours, reference := 0, 0

	for _, turn := range conversation(16) {
		var request map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(turn.Request, &request))

		for i := range len(request["messages"]) / perToken {
			turn.PromptTokenIDs = append(turn.PromptTokenIDs, int32(100_000+i))
		}

		for i := range 60 {
			turn.CompletionTokenIDs = append(turn.CompletionTokenIDs, int32(100_000+i))
			turn.CompletionTokens = append(turn.CompletionTokens, fmt.Sprintf("token_id:%d", 100_000+i))
			turn.PerTokenLogps = append(turn.PerTokenLogps, -float64(i+1)/4096)
		}

		delete(request, "tools")
		theirs, err := json.Marshal(map[string]any{
			"turn":                 turn.Turn,
			"finish_reason":        turn.FinishReason,
			"completion_tokens":    turn.CompletionTokens,
			"completion_token_ids": turn.CompletionTokenIDs,
			"per_token_logps":      turn.PerTokenLogps,
			"latency_s":            1.5,
			"timestamp":            1767323045.5,
			"upstream_status":      200,
			"upstream_error":       nil,
			"request":              request,
			"response":             map[string]any{"finish_reason": turn.FinishReason, "usage": nil},
		})
		require.NoError(t, err)
		raw, err := json.Marshal(c.Compact(turn))
		require.NoError(t, err)

		ours, reference = ours+len(raw), reference+len(theirs)
	}

	t.Logf("%d bytes, the reference's %d: %.2f", ours, reference, float64(ours)/float64(reference))
	require.Less(t, ours, 2*reference)
}

// An empty list, as in a reply without text, stays a list. Other values are unchanged.
func TestEmptyLists(t *testing.T) {
	t.Parallel()

	for _, reply := range []string{`[]`, ` [ ] `, `null`, `7`} {
		var c trajectory.Compactor

		compact := c.Compact(rollout.Turn{
			Request:  json.RawMessage(`{"messages":[]}`),
			Response: json.RawMessage(`{"choices":` + reply + `}`),
		})
		require.JSONEq(t, `[]`, string(compact.Request["messages"].(json.RawMessage)))
		require.JSONEq(t, reply, string(compact.Response["choices"].(json.RawMessage)))
	}
}
