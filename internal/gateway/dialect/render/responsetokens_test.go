package render_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/gateway/dialect/render"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/reply"
	"github.com/rolloutd/rolloutd/internal/rawjson"
)

// vllmResponse returns a response with the tokens of two texts and the given messages, as vLLM sends it for
// enable_response_messages.
func vllmResponse(messages string) string {
	return `{"id":"resp_1","object":"response","status":"completed","model":"m","output":[{"type":"reasoning","content":[{"type":"reasoning_text","text":"hm"}]},` +
		`{"type":"message","content":[{"type":"output_text","text":"Hi","logprobs":[{"token":"hm","logprob":-1,"top_logprobs":[]},{"token":"H","logprob":-0.5},{"token":"i","logprob":-0.25}]}]}],` +
		messages + `,"usage":{"input_tokens":2,"output_tokens":3,"total_tokens":5}}`
}

// Token ids are taken from a response only if their number equals the engine's count.
func TestTokensOfResponses(t *testing.T) {
	t.Parallel()

	const out = `"output_messages":[{"message":"hmHi","tokens":[7,8,9],"type":"raw_message_tokens"}]`
	for _, tc := range []struct {
		name, messages string
		prompt, ids    []int32

		// the prompt's ids can be left out of the stored reply
		plain bool
		flaw  string
	}{
		{"one message each", `"input_messages":[{"message":"<u>]","tokens":[1,2],"type":"raw_message_tokens"}],` + out, []int32{1, 2}, []int32{7, 8, 9}, true, ""},
		{"spaced", `"input_messages": [ {"tokens": [1, 2]} ], "output_messages": [{"tokens": [7, 8]}, {"tokens": [9], "message": "\"}"}]`, []int32{1, 2}, []int32{7, 8, 9}, true, ""},
		{"a message for each step", `"output_messages":[{"message":"hm","tokens":[7]},{"message":"Hi","tokens":[8,9]},{"message":"","tokens":[]}],"input_messages":[{"message":"","tokens":[1,2]}]`, []int32{1, 2}, []int32{7, 8, 9}, true, ""},
		{"objects within strings", `"input_messages":["{\"message\":\"\\\"\",\"tokens\":[1,2],\"type\":\"raw_message_tokens\"}"],"output_messages":["{\"message\":\"\",\"tokens\":[7,8,9]}"]`, []int32{1, 2}, []int32{7, 8, 9}, false, ""},
		{"harmony's messages", `"input_messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}],"output_messages":[{"role":"assistant","content":"Hi"},"plain"]`, nil, nil, false, ""},
		{"none", `"input_messages":null,"output_messages":null`, nil, nil, false, ""},
		{"other types", `"input_messages":7,"output_messages":[null,7,{"tokens":null},"{",{"tokens":"x"}]`, nil, nil, false, ""},
		{"the engine called a tool", `"input_messages":[{"tokens":[1,2]}],"output_messages":[{"tokens":[7,8]},{"tokens":[1,2,7,8,5]},{"tokens":[9]}]`, nil, nil, false, "2 ids of the prompt and 8 of the completion"},
		{"half of the prompt", `"input_messages":[{"tokens":[1]}],` + out, nil, nil, false, "1 ids of the prompt"},
		{"no prompt", `"input_messages":[],` + out, nil, nil, false, "0 ids of the prompt"},
		{"two prompts", `"input_messages":[{"tokens":[1]},{"tokens":[2]}],` + out, []int32{1, 2}, []int32{7, 8, 9}, false, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()

			whole := vllmResponse(tc.messages)

			begun := `data: {"type":"response.created","response":{"status":"in_progress","input_messages":null,"output_messages":null}}` + "\n\n"
			for _, raw := range []string{whole, begun + "event: response.completed\ndata: {\"type\":\"response.completed\", \"response\" : " + whole + "}\n\n"} {
				s := readWhole(t, raw)
				require.Equal(t, "completed", s.FinishReason)
				require.Equal(t, tc.prompt, s.PromptTokenIDs)
				require.Equal(t, tc.ids, s.TokenIDs)
				require.Equal(t, []float64{-1, -0.5, -0.25}, s.Logprobs)
				require.Equal(t, tc.plain, s.PromptAt.End > 0)
				requireSpan(t, s)

				if tc.flaw == "" {
					require.Empty(t, s.Flaws)
				} else {
					require.Len(t, s.Flaws, 1)
					require.Contains(t, s.Flaws[0], tc.flaw)
				}

				r, err := render.Assemble(reply.Responses, []byte(raw))
				require.NoError(t, err)
				require.Equal(t, []string{"hm", "H", "i"}, r.Tokens())
			}
		})
	}
}

// readWhole reads a reply of the Responses API in either form.
func readWhole(t *testing.T, raw string) *reply.Stream {
	t.Helper()

	s, err := feed(reply.Responses, []byte(raw), 13)
	require.NoError(t, err)

	if rawjson.IsObject([]byte(raw)) {
		require.NoError(t, s.Event(s.Raw()))
		require.NoError(t, s.Close())
	}

	return s
}

func TestTokensOfResponsesThatCannotBeRead(t *testing.T) {
	t.Parallel()

	for _, messages := range []string{`"output_messages":[{"tokens":[1,]}]`, `"input_messages":[{"tokens":[-1]}]`, `"output_messages":[{"tokens":[1.5]}]`} {
		s := reply.NewStream(&reply.Reply{API: reply.Responses})
		require.Error(t, s.Event([]byte(vllmResponse(messages))), messages)
	}
}

// Members that only the gateway requested are removed from a response at every place.
func TestViewOfResponses(t *testing.T) {
	t.Parallel()

	const (
		tokens = `[{"token":"H","logprob":-0.5,"top_logprobs":[{"token":"H"}, {"token":"]}"}]} , {"token":"i","top_logprobs":[]}]`
		one    = `[{"token":"H","logprob":-0.5,"top_logprobs":[{"token":"H"}]} , {"token":"i","top_logprobs":[]}]`
		given  = `"input_messages":[{"tokens":[1,2]}],"output_messages" : [{"tokens":[7]}]`
		item   = `{"type":"message","content":[{"type":"output_text","text":"Hi","logprobs":TOKENS},{"type":"refusal"}],"logprobs":[1]}`
		inside = `{"id":"r","output":[{"type":"x","content":null},7,` + item + `],MESSAGES,"top_logprobs":TOP,"text":{"logprobs":[1]}}`
	)
	for name, tc := range map[string]struct {
		view                  render.View
		tokens, messages, top string
	}{
		"nothing": {render.View{Usage: true}, "[]", `"input_messages":null,"output_messages" : null`, "0"},
		"ids":     {render.View{IDs: true, Usage: true}, "[]", given, "0"},
		"logprobs": {render.View{
			Logprobs: true,
			Top:      1,
			Usage:    true,
		}, one, `"input_messages":null,"output_messages" : null`, "1"},
		"all logprobs": {render.View{
			Logprobs: true,
			Top:      -1,
			Usage:    true,
		}, tokens, `"input_messages":null,"output_messages" : null`, "5"},
	} {
		tc.view.API = reply.Responses

		for _, shape := range []string{
			inside, `{"type":"response.completed","response":` + inside + `}`, `{"item":` + item + `,"type":"x"}`, `{"logprobs":TOKENS,"delta":"Hi"}`,
			`{"part":{"type":"output_text","logprobs":TOKENS}}`, `{"type":"response.created","response":{"output":[],"top_logprobs":null,"input_messages":null}}`,
			`{"response":7,"item":"x","part":[],"logprobs":null,"output":{}}`,
		} {
			fill := func(tokens, messages, top string) string {
				return strings.NewReplacer("TOKENS", tokens, "MESSAGES", messages, "TOP", top).Replace(shape)
			}
			in, want := fill(tokens, given, "5"), fill(tc.tokens, tc.messages, tc.top)
			require.Equal(t, want, string(tc.view.Of([]byte(in))), name)
			require.Equal(
				t,
				"event: x\ndata: "+want+"\n\n",
				string(tc.view.Of([]byte("event: x\ndata: "+in+"\n\n"))),
				name,
			)
		}
	}
}
