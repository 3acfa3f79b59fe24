package chat_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/chat"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

const wholeResponse = `{"id":"resp_1","object":"response","created_at":7,"status":"completed","error":null,"incomplete_details":null,"model":"gpt-x","output":[` +
	`{"id":"rs_1","type":"reasoning","summary":[]},` +
	`{"id":"msg_1","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","annotations":[],"logprobs":[{"token":"H","logprob":-0.5,"bytes":[72],"top_logprobs":[]},{"token":"i","logprob":-0.25}],"text":"Hi 😀\"<&>"}]},` +
	`{"id":"fc_1","type":"function_call","status":"completed","arguments":"{\"cmd\":\"ls\"}","call_id":"call_1","name":"bash"}],` +
	`"usage":{"input_tokens":36,"input_tokens_details":{"cached_tokens":0},"output_tokens":87,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":123}}`

func responseStream() string {
	begun := strings.NewReplacer(`"status":"completed","error"`, `"status":"in_progress","error"`).Replace(wholeResponse)
	return "event: response.created\ndata: {\"type\":\"response.created\",\"sequence_number\":0,\"response\":" + begun + "}\n\n" +
		"event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"sequence_number\":1,\"item_id\":\"msg_1\",\"output_index\":1,\"content_index\":0,\"delta\":\"Hi\",\"logprobs\":[]}\n\n" +
		"event: response.completed\ndata: {\"type\":\"response.completed\",\"sequence_number\":2,\"response\":" + wholeResponse + "}\n\n"
}

func TestStreamReadsResponses(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 7, 64, 1 << 20} {
		s := readAs(t, chat.Responses, responseStream(), n)
		require.True(t, s.Done())
		require.Equal(t, "completed", s.FinishReason)
		require.Equal(t, rollout.Usage{PromptTokens: 36, CompletionTokens: 87}, s.Usage)
		require.Equal(t, []float64{-0.5, -0.25}, s.Logprobs, "the agent asked for them itself")
		require.Empty(t, s.TokenIDs)
	}
}

func TestHowAResponseEnds(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, data, finish, wrong string }{
		{"incomplete", `{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}}}`, "max_output_tokens", ""},
		{"incomplete, nobody says why", `{"type":"response.incomplete","response":{"status":"incomplete"}}`, "incomplete", ""},
		{"failed", `{"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"boom"}}}`, "", `{"code":"server_error","message":"boom"}`},
		{"an error", `{"type":"error","code":"invalid_prompt","message":"boom"}`, "", `{"type":"error","code":"invalid_prompt","message":"boom"}`},
		{"an error within", `{"type":"error","error":{"message":"boom"}}`, "", `{"message":"boom"}`},
		{"only begun", `{"type":"response.created","response":{"status":"completed"}}`, "", ""},
		{"one object", wholeResponse, "completed", ""},
		{"one object, still queued", `{"object":"response","status":"queued"}`, "", ""},
	} {
		s := readAs(t, chat.Responses, "data: "+tc.data+"\n\n", 9)
		require.Equal(t, tc.finish, s.FinishReason, tc.name)
		if tc.wrong != "" {
			require.JSONEq(t, tc.wrong, string(s.Error), tc.name)
		} else {
			require.Empty(t, s.Error, tc.name)
		}
	}
}

func TestAssembleResponse(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{responseStream(), wholeResponse} {
		r, err := chat.Responses.Assemble([]byte(raw))
		require.NoError(t, err)
		require.Equal(t, wholeResponse, string(r.JSON()), "the endpoint's own bytes")
		s := readAs(t, chat.Responses, string(r.Events()), 11)
		require.True(t, s.Done())
		require.Equal(t, "completed", s.FinishReason)
		again, err := chat.Responses.Assemble(r.Events())
		require.NoError(t, err)
		require.Equal(t, wholeResponse, string(again.JSON()))
	}
	half, err := chat.Responses.Assemble([]byte(responseStream()[:300]))
	require.NoError(t, err)
	require.Equal(t, "{}", string(half.JSON()))
}

func FuzzResponses(f *testing.F) { fuzzAPI(f, chat.Responses, responseStream(), wholeResponse) }
