package formats_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/trajectory/formats"
)

// The same conversation gives the same result in each model API.
func TestTurnsOfEachAPI(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct{ request, response string }{
		"chat completions": {
			`{"messages":[{"role":"system","content":"be brief"},{"role":"user","content":"list"},7],"tools":[{"name":"bash"}]}`,
			`{"choices":[{"message":{"content":"so","tool_calls":[{"id":"c1","function":{"name":"bash","arguments":"{\"command\":\"ls\"}"}},{"id":"c2"}]}}]}`,
		},
		"messages": {
			`{"system":"be brief","messages":[{"role":"user","content":"list"}],"tools":[{"name":"bash"}]}`,
			`{"content":[{"type":"text","text":"so"},{"type":"tool_use","id":"c1","name":"bash","input":{"command":"ls"}}]}`,
		},
		"responses": {
			`{"instructions":"be brief","input":"list","tools":[{"name":"bash"}]}`,
			`{"output":[{"type":"message","content":[{"text":"so"}]},{"type":"function_call","call_id":"c1","name":"bash","arguments":"{\"command\":\"ls\"}"}]}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			turn := &rollout.Turn{Request: json.RawMessage(c.request), Response: json.RawMessage(c.response)}
			asked := formats.RequestOf(turn)
			require.Len(t, asked.Messages, 2)
			require.JSONEq(t, `{"role":"system","content":"be brief"}`, string(asked.Messages[0]))
			require.JSONEq(t, `{"role":"user","content":"list"}`, string(asked.Messages[1]))
			require.Equal(t, len(asked.Messages[0])+len(asked.Messages[1]), asked.Size)
			require.Len(t, asked.Tools, 1)

			got := formats.ReplyOf(turn)
			require.Equal(t, "so", got.Text)
			require.Len(t, got.Calls, 1)
			require.Equal(t, "c1 bash", got.Calls[0].ID+" "+got.Calls[0].Name)
			require.Contains(t, string(got.Calls[0].Arguments), "ls")
			require.Contains(t, string(got.Message), `"role":"assistant"`)
		})
	}
}

// A body without a conversation gives no messages and no text.
func TestUnreadableTurns(t *testing.T) {
	t.Parallel()

	for _, body := range []string{``, `null`, `7`, `"text"`, `[]`, `{}`, `{"messages":7,"choices":7}`, `{"choices":[]}`, `{"choices":[{"message":7}]}`, `{"content":[7]}`} {
		turn := &rollout.Turn{Request: json.RawMessage(body), Response: json.RawMessage(body)}
		require.NotNil(t, formats.RequestOf(turn).Messages, body)
		got := formats.ReplyOf(turn)
		require.Empty(t, got.Text, body)
		require.Empty(t, got.Calls, body)
		require.True(t, json.Valid(got.Message), body)
	}
}
