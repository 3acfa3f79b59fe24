package render_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/gateway/dialect/render"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/reply"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

const wholeResponse = `{"id":"resp_1","object":"response","created_at":7,"status":"completed","error":null,"incomplete_details":null,"model":"gpt-x","output":[` +
	`{"id":"rs_1","type":"reasoning","summary":[]},` +
	`{"id":"msg_1","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","annotations":[],"logprobs":[{"token":"H","logprob":-0.5,"bytes":[72],"top_logprobs":[]},{"token":"i","logprob":-0.25}],"text":"Hi 😀\"<&>"}]},` +
	`{"id":"fc_1","type":"function_call","status":"completed","arguments":"{\"cmd\":\"ls\"}","call_id":"call_1","name":"bash"}],` +
	`"usage":{"input_tokens":36,"input_tokens_details":{"cached_tokens":0},"output_tokens":87,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":123}}`

func responseStream() string {
	begun := strings.NewReplacer(`"status":"completed","error"`, `"status":"in_progress","error"`).
		Replace(wholeResponse)

	return "event: response.created\ndata: {\"type\":\"response.created\",\"sequence_number\":0,\"response\":" + begun + "}\n\n" +
		"event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"sequence_number\":1,\"item_id\":\"msg_1\",\"output_index\":1,\"content_index\":0,\"delta\":\"Hi\",\"logprobs\":[]}\n\n" +
		"event: response.completed\ndata: {\"type\":\"response.completed\",\"sequence_number\":2,\"response\":" + wholeResponse + "}\n\n"
}

func TestStreamReadsResponses(t *testing.T) {
	t.Parallel()

	for _, n := range []int{1, 7, 64, 1 << 20} {
		s := readAs(t, reply.Responses, responseStream(), n)
		require.True(t, s.Done())
		require.Equal(t, "completed", s.FinishReason)
		require.Equal(t, rollout.Usage{PromptTokens: 36, CompletionTokens: 87}, s.Usage)
		require.Equal(t, []float64{-0.5, -0.25}, s.Logprobs, "the agent asked for them itself")
		require.Empty(t, s.TokenIDs)
	}
}

func TestEndsOfAResponse(t *testing.T) {
	t.Parallel()

	for _, tc := range []struct{ name, data, finish, wrong string }{
		{"incomplete", `{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}}}`, "max_output_tokens", ""},
		{"incomplete without a reason", `{"type":"response.incomplete","response":{"status":"incomplete"}}`, "incomplete", ""},
		{"failed", `{"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"boom"}}}`, "", `{"code":"server_error","message":"boom"}`},
		{"an error", `{"type":"error","code":"invalid_prompt","message":"boom"}`, "", `{"type":"error","code":"invalid_prompt","message":"boom"}`},
		{"an error within", `{"type":"error","error":{"message":"boom"}}`, "", `{"message":"boom"}`},
		{"only begun", `{"type":"response.created","response":{"status":"completed"}}`, "", ""},
		{"one object", wholeResponse, "completed", ""},
		{"one object, still queued", `{"object":"response","status":"queued"}`, "", ""},
	} {
		s := readAs(t, reply.Responses, "data: "+tc.data+"\n\n", 9)
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
		r, err := render.Assemble(reply.Responses, []byte(raw))
		require.NoError(t, err)
		require.Equal(t, wholeResponse, string(r.JSON()), "the endpoint's own bytes")
		s := readAs(t, reply.Responses, string(r.Events()), 11)
		require.True(t, s.Done())
		require.Equal(t, "completed", s.FinishReason)

		again, err := render.Assemble(reply.Responses, r.Events())
		require.NoError(t, err)
		require.Equal(t, wholeResponse, string(again.JSON()))
	}

	half, err := render.Assemble(reply.Responses, []byte(responseStream()[:300]))
	require.NoError(t, err)
	require.Equal(t, "{}", string(half.JSON()))
}

// A response assembled from a broken stream has the received parts of its texts and calls.
func TestAssembleBrokenResponse(t *testing.T) {
	t.Parallel()

	const begun = `{"type":"response.created","response":{"id":"r","status":"in_progress","output":[]}}`
	for name, tc := range map[string]struct {
		events []string
		output string
	}{
		"only begun": {nil, `[]`},
		"a text": {[]string{
			`{"type":"response.output_item.added","output_index":0,"item":{"id":"m","type":"message","status":"in_progress","content":[]}}`,
			`{"type":"response.content_part.added","output_index":0,"content_index":0,"part":{"type":"output_text","text":""}}`,
			`{"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"He\"","logprobs":[]}`,
			`{"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"y \ud83d"}`,
			`{"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"\ude00"}`,
			`{"type":"response.refusal.delta","output_index":0,"content_index":1,"delta":"no"}`,
		}, `[{"id":"m","type":"message","status":"in_progress","content":[{"type":"output_text","text":"He\"y \ud83d\ude00"},{"type":"refusal","refusal":"no"}]}]`},
		"items side by side": {[]string{
			`{"type":"response.output_item.added","output_index":0,"item":{"id":"t","type":"reasoning","summary":[]}}`,
			`{"type":"response.reasoning_text.delta","output_index":0,"content_index":0,"delta":"hm"}`,
			`{"type":"response.output_item.added","output_index":1,"item":{"id":"f","type":"function_call","name":"bash","arguments":""}}`,
			`{"type":"response.function_call_arguments.delta","output_index":1,"delta":"{\"cmd\":"}`,
			`{"type":"response.reasoning_summary_text.delta","output_index":0,"summary_index":0,"delta":"a"}`,
			`{"type":"response.reasoning_summary_text.delta","output_index":0,"summary_index":1,"delta":"b"}`,
			`{"type":"response.function_call_arguments.delta","output_index":1,"delta":"\"ls"}`,
		}, `[{"id":"t","type":"reasoning","summary":[{"type":"summary_text","text":"a"},{"type":"summary_text","text":"b"}],"content":[{"type":"reasoning_text","text":"hm"}]},` +
			`{"id":"f","type":"function_call","name":"bash","arguments":"{\"cmd\":\"ls"}]`},
		"an item that is done": {[]string{
			`{"type":"response.output_item.added","output_index":3,"item":{"type":"message","content":[]}}`,
			`{"type":"response.output_text.delta","output_index":3,"content_index":0,"delta":"Hi"}`,
			`{"type":"response.output_item.done","output_index":3,"item":{"type":"message","content":[{"text":"Hi!"}]}}`,
		}, `[{"type":"message","content":[{"text":"Hi!"}]}]`},
		"an item that was not announced": {[]string{`{"type":"response.custom_tool_call_input.delta","output_index":3,"delta":"x"}`}, `[{"input":"x"}]`},
		"an event that cannot be read": {[]string{
			`{"type":"response.output_text.delta","delta":"Hi"}`, `{"type":}`, `{"type":"response.output_text.delta","delta":" lost"}`,
		}, `[{"content":[{"type":"output_text","text":"Hi"}]}]`},
		"failed": {[]string{
			`{"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"Hi"}`,
			`{"type":"response.failed","response":{"id":"r","status":"in_progress","output":[]}}`,
		}, `[{"content":[{"type":"output_text","text":"Hi"}]}]`},
	} {
		raw := "data: " + begun + "\n\n"
		for _, event := range tc.events {
			raw += "data: " + event + "\n\n"
		}

		r, err := render.Assemble(reply.Responses, []byte(raw+`data: {"type":"response.outp`))
		require.NoError(t, err, name)
		require.JSONEq(t, `{"id":"r","status":"in_progress","output":`+tc.output+`}`, string(r.JSON()), name)
	}
}

func FuzzResponses(f *testing.F) { fuzzAPI(f, reply.Responses, responseStream(), wholeResponse) }
