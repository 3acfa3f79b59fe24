package render_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/gateway/dialect/render"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/reply"
	"github.com/rolloutd/rolloutd/internal/rawjson"
)

// sglangChat is a recorded reply of SGLang 0.5.23 to return_token_ids and logprobs.
const sglangChat = `{"id":"38fffb194a824eeabef62ef4d48dcc52","object":"chat.completion","created":1795422878,"model":"tiny","choices":[{"index":0,"message":{"role":"assistant","content":"<think>\n","reasoning_content":null},"logprobs":{"content":[{"token":"<think>","bytes":[60,116,104,105,110,107,62],"logprob":-0.029359247535467148,"top_logprobs":[]},{"token":"\n","bytes":[10],"logprob":-0.0075505999848246574,"top_logprobs":[]}]},"finish_reason":"length","matched_stop":null,"prompt_token_ids":[2049,760,198,71,72,2050,198,2049,889,777,996,198],"response_token_ids":[2055,198]}],"usage":{"prompt_tokens":12,"total_tokens":14,"completion_tokens":2,"prompt_tokens_details":null,"reasoning_tokens":0,"completion_tokens_details":null},"metadata":{"weight_version":"default","weight_versions":[{"version":"default","start":0,"end":2}]}}`

// Tokens are read from the member in which each engine has them. Values that an engine does not send are
// absent, not invented.
func TestTokensOfEachEngine(t *testing.T) {
	t.Parallel()

	for _, tc := range []struct {
		name, raw   string
		api         reply.API
		prompt, ids []int32
		logprobs    []float64
		version     string
	}{
		{name: "vLLM, one object", prompt: []int32{1, 2}, ids: []int32{5, 6}, logprobs: []float64{-1, -2},
			raw: `{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"ab","refusal":null,"annotations":null,"audio":null,"function_call":null,"tool_calls":[],"reasoning_content":null},"logprobs":{"content":[{"token":"a","logprob":-1.0,"bytes":[97],"top_logprobs":[{"token":"a","logprob":-1.0,"bytes":[97]}]},{"token":"b","logprob":-2.0,"bytes":[98],"top_logprobs":[]}]},"finish_reason":"stop","stop_reason":null,"token_ids":[5,6]}],"service_tier":null,"system_fingerprint":null,"usage":{"prompt_tokens":2,"total_tokens":4,"completion_tokens":2,"prompt_tokens_details":null},"prompt_logprobs":null,"prompt_token_ids":[1,2],"kv_transfer_params":null}`},
		{name: "vLLM with --return-tokens-as-token-ids", ids: []int32{5, 6}, logprobs: []float64{-1, -2},
			raw: `{"choices":[{"logprobs":{"content":[{"token":"token_id:5","logprob":-1.0,"bytes":[97],"top_logprobs":[{"token":"token_id:9","logprob":-3}]},{"token":"token_id:6","logprob":-2.0}]},"finish_reason":"stop","token_ids":null}],"prompt_token_ids":null}`},
		{name: "vLLM, tokens by id and as ids", ids: []int32{5}, logprobs: []float64{-1},
			raw: `{"choices":[{"logprobs":{"content":[{"token":"token_id:5","logprob":-1.0}]},"finish_reason":"stop","token_ids":[5]}]}`},
		{name: "a model that writes token_id: itself", logprobs: []float64{-1, -2},
			raw: `{"choices":[{"logprobs":{"content":[{"token":"token_id:5","logprob":-1.0},{"token":"x","logprob":-2}]},"finish_reason":"stop"}]}`},
		{name: "vLLM, Completions by id", api: reply.Completions, ids: []int32{5, 6}, logprobs: []float64{-1, -2},
			raw: `{"choices":[{"text":"ab","logprobs":{"text_offset":[0,1],"token_logprobs":[-1,-2],"tokens":["token_id:5","token_id:6"],"top_logprobs":[{"token_id:5":-1},{"token_id:6":-2}]},"finish_reason":"length","stop_reason":null}]}`},
		{
			name:     "SGLang on return_token_ids",
			prompt:   []int32{1, 2},
			ids:      []int32{5, 6},
			logprobs: []float64{-1, -2},
			version:  "7",
			raw:      `{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"ab","reasoning_content":null,"tool_calls":null},"logprobs":{"content":[{"token":"a","bytes":[97],"logprob":-1.0,"top_logprobs":[]},{"token":"b","bytes":[98],"logprob":-2.0,"top_logprobs":[]}]},"finish_reason":"stop","matched_stop":151645,"prompt_token_ids":[1,2],"token_ids":[5,6]}],"usage":{"prompt_tokens":2,"total_tokens":4,"completion_tokens":2,"prompt_tokens_details":null,"reasoning_tokens":0},"metadata":{"weight_version":"7"}}`,
		},
		{
			name:     "SGLang on return_meta_info",
			prompt:   []int32{1, 2},
			ids:      []int32{5, 6},
			logprobs: []float64{-1, -2},
			version:  "default",
			raw:      `{"choices":[{"index":0,"message":{"role":"assistant","content":"ab"},"logprobs":null,"finish_reason":"stop","prompt_token_ids":[1,2],"meta_info":{"id":"x","finish_reason":{"type":"stop","matched":151645},"prompt_tokens":2,"weight_version":"default","input_token_logprobs":[],"output_token_logprobs":[[-1.0,5,null],[-2.0,6,"b"]],"completion_tokens":2}}]}`,
		},
		{name: "SGLang on both", ids: []int32{5}, logprobs: []float64{-1}, version: "v",
			raw: `{"choices":[{"logprobs":{"content":[{"token":"a","logprob":-1.0}]},"finish_reason":"stop","token_ids":[5],"meta_info":{"weight_version":"v","output_token_logprobs":[[-1.5,9,null]]}}]}`},
		// Recorded from SGLang 0.5.23.
		{
			name:     "SGLang 0.5.23 on return_token_ids",
			prompt:   []int32{2049, 760, 198, 71, 72, 2050, 198, 2049, 889, 777, 996, 198},
			ids:      []int32{2055, 198},
			logprobs: []float64{-0.029359247535467148, -0.0075505999848246574},
			version:  "default",
			raw:      sglangChat,
		},
		{
			name:     "SGLang, weights swapped within a reply",
			prompt:   []int32{2049, 760, 198, 71, 72, 2050, 198, 2049, 889, 777, 996, 198},
			ids:      []int32{2055, 198},
			logprobs: []float64{-0.029359247535467148, -0.0075505999848246574},
			version:  "7..8",
			raw: strings.Replace(sglangChat, `"weight_version":"default","weight_versions":[{"version":"default","start":0,"end":2}]`,
				`"weight_version":"8","weight_versions":[{"version":"7","start":0,"end":1},{"version":"8","start":1,"end":2}]`, 1),
		},
		{name: "SGLang, streamed: no ids", logprobs: []float64{-1},
			raw: "data: " + `{"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":null,"content":"a","reasoning_content":null,"tool_calls":null},"logprobs":{"content":[{"token":"a","bytes":[97],"logprob":-1.0,"top_logprobs":[]}]},"finish_reason":"stop","matched_stop":1}],"usage":null}` + "\n\ndata: [DONE]\n\n"},
		{
			name:     "SGLang, Completions streamed",
			api:      reply.Completions,
			prompt:   []int32{1},
			ids:      []int32{5, 6},
			logprobs: []float64{-1, -2},
			raw: "data: " + `{"choices":[{"index":0,"text":"a","logprobs":{"text_offset":[-1],"token_logprobs":[-1.0],"tokens":["a"],"top_logprobs":[null]},"finish_reason":null,"prompt_token_ids":[1],"token_ids":[5]}]}` + "\n\n" +
				"data: " + `{"choices":[{"index":0,"text":"b","logprobs":{"text_offset":[-1],"token_logprobs":[-2.0],"tokens":["b"],"top_logprobs":[null]},"finish_reason":"stop","token_ids":[6]}]}` + "\n\ndata: [DONE]\n\n",
		},
		{name: "OpenAI", logprobs: []float64{-1},
			raw: `{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"gpt-4o-mini-2024-07-18","choices":[{"index":0,"message":{"role":"assistant","content":"a","refusal":null,"annotations":[]},"logprobs":{"content":[{"token":"a","logprob":-1,"bytes":[97],"top_logprobs":[]}],"refusal":null},"finish_reason":"stop"}],"usage":{"prompt_tokens":2,"completion_tokens":1,"total_tokens":3,"prompt_tokens_details":{"cached_tokens":0,"audio_tokens":0}},"service_tier":"default","system_fingerprint":"fp_1"}`},
		{name: "weights swapped", version: "1..3",
			raw: "data: " + `{"weight_version":1,"choices":[]}` + "\n\ndata: " + `{"metadata":{"weight_version":"2"}}` + "\n\ndata: " + `{"model_version":"3","choices":[{"finish_reason":"stop"}]}` + "\n\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()

			raw := tc.raw
			if rawjson.IsObject([]byte(raw)) {
				raw = "data: " + raw + "\n\n"
			}

			s := readAs(t, tc.api, raw, 17)
			require.Equal(t, tc.prompt, s.PromptTokenIDs)
			require.Equal(t, tc.ids, s.TokenIDs)
			require.Equal(t, tc.logprobs, s.Logprobs)
			require.Equal(t, tc.version, s.ModelVersion)
			require.NotEmpty(t, s.FinishReason)
		})
	}
}

func TestVersionFromTheHeaders(t *testing.T) {
	t.Parallel()

	s := reply.NewStream(&reply.Reply{})
	s.Began("v1")
	s.Began("")
	require.NoError(t, s.Event([]byte(`{"model_version":"v2"}`)))
	require.Equal(t, "v1..v2", s.ModelVersion)
}

// The agent does not see ids that only the gateway requested. The record has them under their common name.
func TestIDsOfSGLangsChat(t *testing.T) {
	t.Parallel()

	seen := string(render.View{API: reply.Chat, Logprobs: true, Top: -1, Usage: true}.Of([]byte(sglangChat)))
	require.NotContains(t, seen, "_token_ids")
	require.Contains(t, seen, `"matched_stop":null}],"usage"`)

	whole, err := render.Assemble(reply.Chat, []byte(sglangChat))
	require.NoError(t, err)
	require.Contains(t, string(whole.JSON()), `"token_ids":[2055,198]`)
}
