package dialect_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/chat"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/google"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/messages"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/responses"
)

// gemini translates a request of Google's API as a call of a model.
func gemini(body []byte) (*chat.Call, error) { return google.Translate(body, "m", false) }

// translations returns the translations of all APIs.
func translations() map[string]func([]byte) (*chat.Call, error) {
	return map[string]func([]byte) (*chat.Call, error){
		"messages":  messages.Translate,
		"responses": responses.Translate,
		"google":    gemini,
	}
}

type pair struct{ api, in, out string }

// conversations returns requests that test one translation each, with their messages.
func conversations() map[string]pair {
	return map[string]pair{
		"texts of one message": {
			"messages",
			`{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]}`,
			`[{"role":"user","content":"a\nb"}]`,
		},
		"a call and its result, behind which the user says more": {
			"messages",
			`{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"s"},` +
				`{"type":"text","text":"x"},{"type":"tool_use","id":"c1","name":"f","input":{"a": 1}}]},` +
				`{"role":"user","content":[{"type":"text","text":"more"},{"type":"tool_result","tool_use_id":"c1","content":[{"type":"text","text":"r"},` +
				`{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AA"}}]}]}]}`,
			`[{"role":"user","content":"hi"},{"role":"assistant","content":"x","reasoning":"t","reasoning_content":"t","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]},` +
				`{"role":"tool","content":"r","tool_call_id":"c1"},{"role":"user","content":[{"type":"text","text":"more"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AA"}}]}]`,
		},
		"arguments that were no object": {
			"messages",
			`{"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"f","input":"{\"a\""}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1"}]}]}`,
			`[{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\""}}]},{"role":"tool","content":"","tool_call_id":"c1"}]`,
		},
		"instructions in the middle": {
			"messages", `{"system":"s","messages":[{"role":"user","content":"a"},{"role":"system","content":"b"}]}`,
			`[{"role":"system","content":"s"},{"role":"user","content":"a"},{"role":"user","content":"b"}]`,
		},
		"a text document": {
			"messages",
			`{"messages":[{"role":"user","content":[{"type":"document","source":{"type":"text","media_type":"text/plain","data":"doc"}}]}]}`,
			`[{"role":"user","content":"doc"}]`,
		},
		"one text": {"responses", `{"input":"hi"}`, `[{"role":"user","content":"hi"}]`},
		"instructions of the developer": {
			"responses",
			`{"instructions":"a","input":[{"role":"developer","content":"b"},{"role":"user","content":[{"type":"input_text","text":"hi"}]}]}`,
			`[{"role":"system","content":"a\nb"},{"role":"user","content":"hi"}]`,
		},
		"one answer of several items": {
			"responses",
			`{"input":[{"role":"user","content":"hi"},{"type":"reasoning","summary":[],"encrypted_content":"rolloutd:dGg="},` +
				`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"x"}]},` +
				`{"type":"function_call","call_id":"c1","name":"f","arguments":"{\"a\": 1}"},{"type":"custom_tool_call","call_id":"c2","name":"patch","input":"p\n"},` +
				`{"type":"function_call_output","call_id":"c1","output":"r1"},{"type":"custom_tool_call_output","call_id":"c2","output":[{"type":"input_text","text":"r2"}]}]}`,
			`[{"role":"user","content":"hi"},{"role":"assistant","content":"x","reasoning":"th","reasoning_content":"th","tool_calls":[` +
				`{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\": 1}"}},{"id":"c2","type":"function","function":{"name":"patch","arguments":"{\"input\":\"p\\n\"}"}}]},` +
				`{"role":"tool","content":"r1","tool_call_id":"c1"},{"role":"tool","content":"r2","tool_call_id":"c2"}]`,
		},
		"an image": {
			"responses",
			`{"input":[{"role":"user","content":[{"type":"input_image","image_url":"data:x","detail":"low"}]}]}`,
			`[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:x","detail":"low"}}]}]`,
		},
		"calls without ids": {
			"google",
			`{"contents":[{"role":"user","parts":[{"text":"hi"}]},{"role":"model","parts":[{"text":"t","thought":true},{"functionCall":{"name":"f","args":{"a": 1}}},{"functionCall":{"name":"f"}}]},` +
				`{"role":"user","parts":[{"functionResponse":{"name":"f","response":{"output":"r1"}}},{"functionResponse":{"name":"f","response":{"error":"r2"}}}]}]}`,
			`[{"role":"user","content":"hi"},{"role":"assistant","content":null,"reasoning":"t","reasoning_content":"t","tool_calls":[` +
				`{"id":"call_1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}},{"id":"call_2","type":"function","function":{"name":"f","arguments":"{}"}}]},` +
				`{"role":"tool","content":"r1","tool_call_id":"call_1"},{"role":"tool","content":"r2","tool_call_id":"call_2"}]`,
		},
		"an image of bytes": {
			"google",
			`{"systemInstruction":"s","contents":[{"parts":[{"inlineData":{"mimeType":"image/png","data":"AA"}}]}]}`,
			`[{"role":"system","content":"s"},{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AA"}}]}]`,
		},
		"names in snake_case": {
			"google",
			`{"system_instruction":"s","contents":[{"parts":[{"inline_data":{"mime_type":"image/png","data":"AA"}}]},{"role":"model","parts":[{"function_call":{"name":"f_g","args":{"a_b":{"c_d":1}}}}]},` +
				`{"parts":[{"function_response":{"name":"f_g","response":{"a_b":1}}}]}]}`,
			`[{"role":"system","content":"s"},{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AA"}}]},{"role":"assistant","content":null,"tool_calls":[` +
				`{"id":"call_1","type":"function","function":{"name":"f_g","arguments":"{\"a_b\":{\"c_d\":1}}"}}]},{"role":"tool","content":"{\"a_b\":1}","tool_call_id":"call_1"}]`,
		},
	}
}

func TestConversations(t *testing.T) {
	t.Parallel()

	for name, c := range conversations() {
		call, err := translations()[c.api]([]byte(c.in))
		require.NoError(t, err, name)
		require.Contains(t, string(call.Body), `"messages":`+c.out, name)
	}
}

// Members other than the conversation are translated, too.
func TestOptions(t *testing.T) {
	t.Parallel()

	for _, c := range []pair{
		{"messages", `"max_tokens":5,"temperature":0.5,"top_p":1,"top_k":3,"stop_sequences":["x"],"stream":true`, `"max_tokens":5,"temperature":0.5,"top_p":1,"top_k":3,"stop":["x"],"stream":true`},
		{"messages", `"tools":[{"name":"f","description":"d","input_schema":{"type":"object"}}],"tool_choice":{"type":"any","disable_parallel_tool_use":true}`,
			`"tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object"}}}],"tool_choice":"required","parallel_tool_calls":false`},
		{"messages", `"tools":[{"name":"f"}],"tool_choice":{"type":"tool","name":"f"}`, `"tool_choice":{"function":{"name":"f"},"type":"function"}`},
		{"messages", `"output_config":{"format":{"type":"json_schema","schema":{}}}`, `"response_format":{"json_schema":{"name":"output","schema":{}},"type":"json_schema"}`},
		{"responses", `"max_output_tokens":5,"tools":[{"type":"custom","name":"p","description":"d","format":{"type":"grammar","syntax":"lark","definition":"g"}}],"tool_choice":{"type":"custom","name":"p"}`,
			`"tools":[{"type":"function","function":{"name":"p","description":"d\n\nThe input follows this grammar (lark):\ng","parameters":{"type":"object","properties":{"input":{"type":"string"}},"required":["input"],"additionalProperties":false}}}],"tool_choice":{"function":{"name":"p"},"type":"function"},"max_tokens":5`},
		{"responses", `"text":{"format":{"type":"json_schema","name":"n","schema":{},"strict":true}}`, `"response_format":{"json_schema":{"name":"n","schema":{},"strict":true},"type":"json_schema"}`},
		{"google", `"generationConfig":{"temperature":1,"topP":0.9,"topK":3,"maxOutputTokens":7,"stopSequences":["x"],"seed":1}`, `"max_tokens":7,"temperature":1,"top_p":0.9,"top_k":3,"seed":1,"stop":["x"]`},
		{"google", `"tools":[{"functionDeclarations":[{"name":"f","parameters":{"type":"OBJECT","properties":{"type":{"type":"ARRAY","items":{"type":"STRING","nullable":true}}}}},{"name":"g"}]}],"toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["f"]}}`,
			`"tools":[{"type":"function","function":{"name":"f","parameters":{"properties":{"type":{"items":{"type":["string","null"]},"type":"array"}},"type":"object"}}}],"tool_choice":"required"`},
		{"google", `"tools":[{"function_declarations":[{"name":"f","parameters_json_schema":{"properties":{"any_of":{"any_of":[]}}}},{"name":"g","parameters":{"type":"OBJECT","properties":{"some_name":{"any_of":[{"type":"STRING"}],"default":{"a_b":1}}},"required":["some_name"]}}]}],"tool_config":{"function_calling_config":{"mode":"ANY"}}`,
			`"tools":[{"type":"function","function":{"name":"f","parameters":{"properties":{"any_of":{"any_of":[]}}}}},{"type":"function","function":{"name":"g","parameters":{"properties":{"some_name":{"anyOf":[{"type":"string"}],"default":{"a_b":1}}},"required":["some_name"],"type":"object"}}}],"tool_choice":"required"`},
		{"google", `"generation_config":{"max_output_tokens":7,"top_p":0.9}`, `"max_tokens":7,"top_p":0.9`},
	} {
		said := map[string]string{
			"messages":  `"messages":[{"role":"user","content":"hi"}]`,
			"responses": `"input":"hi"`,
			"google":    `"contents":[{"parts":[{"text":"hi"}]}]`,
		}[c.api]
		call, err := translations()[c.api]([]byte(`{` + said + `,` + c.in + `}`))
		require.NoError(t, err, c.in)
		require.Contains(t, string(call.Body), c.out)
	}
}

// Content without a counterpart is refused, and the error names its position.
func TestRefusals(t *testing.T) {
	t.Parallel()

	for _, c := range []pair{
		{"messages", `{"messages":[{"role":"user","content":[{"type":"document","source":{"type":"base64","media_type":"application/pdf"}}]}]}`, `messages[0]: content[0]: a chat completion has no document with a source of type "base64"`},
		{"messages", `{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}`, "ends with a message of the assistant"},
		{"messages", `{"messages":[{"role":"x"}]}`, "must be user or assistant"},
		{"messages", `{"messages":[{"role":"user","content":"a"}],"tool_choice":{"type":"x"}}`, "must be auto, any, tool or none"},
		{"messages", `{"messages":3}`, "must not be a number"},
		{"messages", `{}`, "has no message"},
		{"responses", `{"input":"a","previous_response_id":"r"}`, "no responses are stored"},
		{"responses", `{"input":[{"type":"computer_call"}]}`, `input[0]: a chat completion has no item of type "computer_call"`},
		{"responses", `{"input":[{"role":"user","content":[{"type":"input_image","file_id":"f"}]}]}`, "no image by file id"},
		{"responses", `{"input":"a","tool_choice":{"type":"web_search"}}`, "must be auto, none, required or a tool"},
		{"google", `{"contents":[{"parts":[{"fileData":{}}]}]}`, "contents[0]: a chat completion has no fileData"},
		{"google", `{"contents":[{"parts":[{"text":"a"}]}],"cachedContent":"c"}`, "no contents are stored"},
		{"google", `{"contents":[{"parts":[{"text":"a"}]}],"generationConfig":{"candidateCount":2}}`, "must be 1"},
	} {
		_, err := translations()[c.api]([]byte(c.in))
		require.ErrorContains(t, err, c.out, c.in)
		require.True(t, fault.Is(err, fault.Invalid), c.in)
	}
}

// Tools that run on the API's own servers are dropped, and the call lists them.
func TestDroppedTools(t *testing.T) {
	t.Parallel()

	for api, in := range map[string]string{
		"messages":  `{"messages":[{"role":"user","content":"hi"}],"tools":[{"type":"web_search_20250305","name":"web_search"}],"tool_choice":{"type":"auto"}}`,
		"responses": `{"input":"hi","tools":[{"type":"web_search"}],"tool_choice":"auto"}`,
		"google":    `{"contents":[{"parts":[{"text":"hi"}]}],"tools":[{"googleSearch":{}}],"toolConfig":{"functionCallingConfig":{"mode":"AUTO"}}}`,
	} {
		call, err := translations()[api]([]byte(in))
		require.NoError(t, err)
		require.Len(t, call.Dropped, 1, api)
		require.NotContains(t, string(call.Body), "tool", api)
	}
}
