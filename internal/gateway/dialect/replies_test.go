package dialect_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/gateway/dialect/chat"
)

// asked returns a minimal request for each API.
func asked() map[string]string {
	return map[string]string{
		"messages":  `{"model":"m","messages":[{"role":"user","content":"hi"}]}`,
		"responses": `{"model":"m","input":"hi","tools":[{"type":"custom","name":"patch"}]}`,
		"google":    `{"contents":[{"parts":[{"text":"hi"}]}]}`,
	}
}

// completed returns a complete completion with a message and an end.
func completed(message, end string) string {
	return `{"id":"chatcmpl-1","created":5,"choices":[{"message":` + message + `,` + end + `}],"usage":{"prompt_tokens":10,"completion_tokens":4,` +
		`"prompt_tokens_details":{"cached_tokens":3},"completion_tokens_details":{"reasoning_tokens":1}}}`
}

func TestReplies(t *testing.T) {
	t.Parallel()

	const (
		broken = `{"content":null,"tool_calls":[{"id":"","type":"function","function":{"name":"patch","arguments":"{\"input\""}}]}`
		patch  = `{"content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"patch","arguments":"{\"input\":\"p\"}"}}]}`
	)
	for _, c := range []pair{
		{"messages", completed(`{"content":"x"}`, `"finish_reason":"stop"`), `"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":7,"cache_creation_input_tokens":0,"cache_read_input_tokens":3,"output_tokens":4}`},
		{"messages", completed(`{"content":"x"}`, `"finish_reason":"stop","stop_reason":"END"`), `"stop_reason":"stop_sequence","stop_sequence":"END"`},
		{"messages", completed(`{"content":"x"}`, `"finish_reason":"stop","stop_reason":128009`), `"stop_reason":"end_turn"`},
		{"messages", completed(`{"content":"x"}`, `"finish_reason":"length"`), `"stop_reason":"max_tokens"`},
		{"messages", completed(`{"content":null,"refusal":"no"}`, `"finish_reason":"content_filter"`), `"content":[{"type":"text","text":"no"}],"stop_reason":"refusal"`},
		{"messages", completed(broken, `"finish_reason":"tool_calls"`), `{"type":"tool_use","id":"call_1_0","name":"patch","input":"{\"input\""}`},
		{"responses", completed(`{"content":"x"}`, `"finish_reason":"length"`), `"status":"incomplete","error":null,"incomplete_details":{"reason":"max_output_tokens"}`},
		{"responses", completed(patch, `"finish_reason":"tool_calls"`), `{"id":"ctc_1_0","type":"custom_tool_call","status":"completed","call_id":"c","name":"patch","input":"p"}`},
		{"responses", completed(broken, `"finish_reason":"tool_calls"`), `"name":"patch","input":"{\"input\""`},
		{"responses", completed(`{"content":null,"refusal":"no"}`, `"finish_reason":"stop"`), `"content":[{"type":"refusal","refusal":"no"}]`},
		{"google", completed(`{"content":"x"}`, `"finish_reason":"length"`), `"finishReason":"MAX_TOKENS"`},
		{"google", completed(`{"content":"x"}`, `"finish_reason":"stop"`), `"usageMetadata":{"promptTokenCount":10,"cachedContentTokenCount":3,"candidatesTokenCount":3,"thoughtsTokenCount":1,"totalTokenCount":14}`},
		{"google", completed(broken, `"finish_reason":"tool_calls"`), `"functionCall":{"id":"call_1_0","name":"patch","args":{"_arguments":"{\"input\""}}`},
	} {
		call, err := translations()[c.api]([]byte(asked()[c.api]))
		require.NoError(t, err)
		said, err := chat.Read([]byte(c.in))
		require.NoError(t, err)
		require.Contains(t, string(call.Reply(said)), c.out, c.api)
	}
}

// For any valid request, the upstream request is an object with messages. For any completion, the agent gets an object.
func FuzzTranslate(f *testing.F) {
	for _, c := range conversations() {
		f.Add(
			c.in,
			completed(
				`{"content":"x","reasoning_content":"t","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]}`,
				`"finish_reason":"stop"`,
			),
		)
	}

	for _, in := range asked() {
		f.Add(in, `{"id":1,"created":"x","choices":[],"usage":[]}`)
	}

	f.Fuzz(func(t *testing.T, in, reply string) {
		for api, translate := range translations() {
			call, err := translate([]byte(in))
			if err != nil {
				continue
			}

			var sent struct {
				Messages []struct {
					Role string `json:"role"`
				} `json:"messages"`
			}
			require.NoError(t, json.Unmarshal(call.Body, &sent), "%s: %s", api, call.Body)
			require.NotEmpty(t, sent.Messages)

			said, err := chat.Read([]byte(reply))
			if err != nil {
				continue
			}

			require.True(t, json.Valid(call.Reply(said)), "%s: %s", api, call.Reply(said))
		}
	})
}

// The elements and levels of a request are bounded before decoding, because small values become large objects.
func TestBounds(t *testing.T) {
	t.Parallel()

	for api, translate := range translations() {
		_, err := translate([]byte(`{"messages":[` + strings.Repeat(`{},`, 1<<18) + `{}]}`))
		require.ErrorContains(t, err, "more than 262144 elements", api)
		_, err = translate([]byte(`{"tools":` + strings.Repeat("[", 201) + strings.Repeat("]", 201) + `}`))
		require.ErrorContains(t, err, "more than 200 levels", api)
	}
}
