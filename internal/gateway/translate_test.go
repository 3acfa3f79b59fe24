package gateway_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/testkit/pyclient"
)

// chatCall is a reply of vLLM with reasoning, text and a tool call.
const chatCall = `data: {"id":"chatcmpl-7","object":"chat.completion.chunk","created":7,"model":"real-model","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"prompt_token_ids":[1,2,3]}

data: {"id":"chatcmpl-7","object":"chat.completion.chunk","created":7,"model":"real-model","choices":[{"index":0,"delta":{"reasoning_content":"Hm <b>"},"logprobs":{"content":[{"token":"Hm","logprob":-0.5,"bytes":[72],"top_logprobs":[]}]},"finish_reason":null,"token_ids":[10]}]}

data: {"id":"chatcmpl-7","object":"chat.completion.chunk","created":7,"model":"real-model","choices":[{"index":0,"delta":{"content":"Hello","tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"bash","arguments":"{\"command\": \"ls\"}"}}]},"logprobs":{"content":[{"token":"lo","logprob":-0.25,"bytes":[108],"top_logprobs":[]}]},"finish_reason":"tool_calls","stop_reason":null,"token_ids":[11]}]}

data: {"id":"chatcmpl-7","object":"chat.completion.chunk","created":7,"model":"real-model","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5,"prompt_tokens_details":{"cached_tokens":1}}}

data: [DONE]

`

// translated is a call of an API that is sent upstream as a chat completion.
type translated struct {
	path, ask string

	// types of the stream's events in order; Google's API has no types, so a part of each event
	events []string

	// parts of the reply as one object
	whole []string

	// the beginning of an error
	refusal string

	// a part of the reply after the end of the route
	empty string
}

func translatedAPIs() []translated {
	return []translated{
		{
			path: "/v1/messages",
			ask: `{"model":"claude","max_tokens":100,"system":[{"type":"text","text":"x-anthropic-billing-header: cch=1"},{"type":"text","text":"Be good."}],` +
				`"messages":[{"role":"user","content":"hi"}],"tools":[{"name":"bash","input_schema":{"type":"object"}}],"thinking":{"type":"enabled"}`,
			events: []string{
				"message_start",
				"content_block_start",
				"content_block_delta",
				"content_block_delta",
				"content_block_stop",
				"content_block_start",
				"content_block_delta",
				"content_block_stop",
				"content_block_start",
				"content_block_delta",
				"content_block_stop",
				"message_delta",
				"message_stop",
			},
			whole: []string{
				`{"type":"thinking","thinking":"Hm <b>"`,
				`{"type":"text","text":"Hello"}`,
				`{"type":"tool_use","id":"call_1","name":"bash","input":{"command":"ls"}}`,
				`"stop_reason":"tool_use"`,
				`"model":"claude"`,
				`"input_tokens":2`,
				`"cache_read_input_tokens":1`,
				`"output_tokens":2`,
			},
			refusal: `{"type":"error","error":{"message":`,
			empty:   `"content":[]`,
		},
		{
			path: "/v1/responses",
			ask: `{"model":"gpt","instructions":"Be good.","input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]}],` +
				`"max_output_tokens":100,"tools":[{"type":"function","name":"bash","parameters":{"type":"object"}},{"type":"web_search"}],"include":["reasoning.encrypted_content"]`,
			events: []string{
				"response.created",
				"response.in_progress",
				"response.output_item.added",
				"response.content_part.added",
				"response.reasoning_text.delta",
				"response.reasoning_text.done",
				"response.content_part.done",
				"response.output_item.done",
				"response.output_item.added",
				"response.content_part.added",
				"response.output_text.delta",
				"response.output_text.done",
				"response.content_part.done",
				"response.output_item.done",
				"response.output_item.added",
				"response.function_call_arguments.delta",
				"response.function_call_arguments.done",
				"response.output_item.done",
				"response.completed",
			},
			whole: []string{
				`"status":"completed"`,
				`"type":"reasoning_text","text":"Hm <b>"`,
				`"type":"output_text","text":"Hello"`,
				`"type":"function_call"`,
				`"call_id":"call_1"`,
				`"arguments":"{\"command\": \"ls\"}"`,
				`"model":"gpt"`,
				`"cached_tokens":1`,
				`"total_tokens":5`,
			},
			refusal: `{"error":{"message":`,
			empty:   `"output":[]`,
		},
		{
			path: "/v1beta/models/gemini-x:generateContent",
			ask: `{"systemInstruction":{"parts":[{"text":"Be good."}]},"contents":[{"role":"user","parts":[{"text":"hi"}]}],` +
				`"tools":[{"functionDeclarations":[{"name":"bash","parameters":{"type":"OBJECT"}}]},{"googleSearch":{}}],"generationConfig":{"maxOutputTokens":100}`,
			events: []string{`{"text":"Hm <b>","thought":true}`, `{"text":"Hello"}`, `"functionCall"`},
			whole: []string{
				`{"text":"Hm <b>","thought":true}`,
				`{"text":"Hello"}`,
				`{"functionCall":{"id":"call_1","name":"bash","args":{"command":"ls"}}}`,
				`"finishReason":"STOP"`,
				`"modelVersion":"gemini-x"`,
				`"promptTokenCount":3`,
				`"cachedContentTokenCount":1`,
			},
			refusal: `{"error":{"code":400,"message":`,
			empty:   `"parts":[{"text":""}]`,
		},
	}
}

// stream returns the path and body of the call as a stream.
func (c translated) stream() (path, body string) {
	if path, ok := strings.CutSuffix(c.path, ":generateContent"); ok {
		return path + ":streamGenerateContent?alt=sse", c.ask + "}"
	}

	return c.path, c.ask + `,"stream":true}`
}

// translatedRoute returns a route whose calls go upstream as chat completions.
func (h *host) translatedRoute(upstream string) gatewayapi.Route {
	r := h.route(upstream)
	r.Model.Translate = rollout.TranslateChat

	return r
}

// Calls of three APIs are sent upstream as chat completions. The agent gets replies of its own API with the
// events in order, and the record has the engine's tokens.
func TestTranslatedCalls(t *testing.T) {
	t.Parallel()

	for _, c := range translatedAPIs() {
		t.Run(c.path, func(t *testing.T) {
			t.Parallel()
			h, e := newHost(t), newEngine(t, says(chatCall[:300]), says(chatCall))
			url := h.open(t, h.translatedRoute(e.URL))
			whole := sendTo(t.Context(), url+c.path, "u", c.ask+"}")
			require.Equal(t, http.StatusOK, whole.status, whole.body)
			require.Equal(t, "application/json", whole.header.Get("Content-Type"))

			for _, piece := range c.whole {
				require.Contains(t, whole.body, piece)
			}

			require.NotContains(t, whole.body, "token_ids")
			require.Equal(t, whole.body, sendTo(t.Context(), url+c.path, "u", c.ask+"}").body, "from its record")
			path, body := c.stream()
			streamed := sendTo(t.Context(), url+path, "s", body)
			require.Equal(t, "text/event-stream", streamed.header.Get("Content-Type"))
			c.inOrder(t, streamed.body)

			require.Len(t, e.requests(), 3)

			for _, r := range e.requests() {
				require.Equal(t, "/v1/chat/completions", r.path)
				require.Contains(t, r.body, `"model":"real-model"`)
				require.Contains(
					t,
					r.body,
					`"messages":[{"role":"system","content":"Be good."},{"role":"user","content":"hi"}]`,
				)
				require.Contains(
					t,
					r.body,
					`"tools":[{"type":"function","function":{"name":"bash","parameters":{"type":"object"}}}]`,
				)
				require.Contains(t, r.body, `"max_tokens":100`)
				require.Contains(t, r.body, `"return_token_ids":true`)
			}

			turns := h.turns(t, "r1.1")
			require.Len(t, turns, 2)

			for _, turn := range turns {
				require.Equal(t, "chat/completions", turn.API)
				require.True(t, turn.Train, turn.Flaws)
				require.True(t, turn.Delivered)
				require.Equal(t, []int32{10, 11}, turn.CompletionTokenIDs)
				require.Equal(t, []float64{-0.5, -0.25}, turn.PerTokenLogps)
			}

			require.NoError(t, h.client.End(t.Context(), "r1.1", "over"))
			require.Contains(t, sendTo(t.Context(), url+c.path, "", c.ask+"}").body, c.empty)
		})
	}
}

// inOrder checks the events of a stream and their order.
func (c translated) inOrder(t *testing.T, stream string) {
	t.Helper()

	var events []string

	for block := range strings.SplitSeq(strings.TrimSpace(stream), "\n\n") {
		kind, data, named := strings.Cut(block, "\n")
		if !named {
			data = kind
		}

		text, ok := strings.CutPrefix(data, "data: ")
		require.True(t, ok, block)
		require.True(t, json.Valid([]byte(text)), text)

		if named {
			events = append(events, strings.TrimPrefix(kind, "event: "))
			require.Contains(t, text, `"type":"`+events[len(events)-1]+`"`)

			continue
		}

		require.Contains(t, text, c.events[len(events)])
		events = append(events, c.events[len(events)])
		require.Equal(t, len(events) == len(c.events), strings.Contains(text, `"finishReason":"STOP"`), text)
	}

	require.Equal(t, c.events, events)
}

// The agent gets refusals of the endpoint and failed translations as errors of its own API.
func TestTranslatedRefusals(t *testing.T) {
	t.Parallel()

	for _, c := range translatedAPIs() {
		h, e := newHost(t), newEngine(t, answers(400, `{"error":{"message":"the maximum context length is 8"}}`))
		url := h.open(t, h.translatedRoute(e.URL))
		refused := sendTo(t.Context(), url+c.path, "", c.ask+"}")
		require.Equal(t, http.StatusBadRequest, refused.status)
		require.True(t, strings.HasPrefix(refused.body, c.refusal), refused.body)
		require.Contains(t, refused.body, "maximum context length")

		bad := strings.NewReplacer(`"content":"hi"`, `"content":[{"type":"video"}]`, `{"type":"input_text","text":"hi"}`, `{"type":"input_file"}`,
			`{"text":"hi"}`, `{"fileData":{"fileUri":"gs://x"}}`).
			Replace(c.ask)
		wrong := sendTo(t.Context(), url+c.path, "", bad+"}")
		require.Equal(t, http.StatusBadRequest, wrong.status)
		require.True(t, strings.HasPrefix(wrong.body, c.refusal), wrong.body)
		require.Contains(t, wrong.body, "a chat completion has no ")
		require.Len(t, e.requests(), 1)
	}
}

// The endpoint counts the tokens of a prompt. If it does not support this, the gateway estimates them.
func TestPromptsAreCounted(t *testing.T) {
	t.Parallel()

	for want, step := range map[string]http.HandlerFunc{
		`7}`:  answers(200, `{"tokens":[1,2,3,4,5,6,7]}`),
		`17}`: answers(404, `{}`),
	} {
		h, e := newHost(t), newEngine(t, step)
		url := h.open(t, h.translatedRoute(e.URL))
		claude := sendTo(
			t.Context(),
			url+"/v1/messages/count_tokens",
			"",
			`{"model":"claude","messages":[{"role":"user","content":"hello yo"}]}`,
		)
		require.Equal(t, `{"input_tokens":`+want, claude.body)
		gemini := sendTo(
			t.Context(),
			url+"/v1beta/models/g:countTokens",
			"",
			`{"generateContentRequest":{"contents":[{"role":"user","parts":[{"text":"0123456789abcdefghi"}]}]}}`,
		)
		require.Equal(t, `{"totalTokens":`+want, gemini.body)
		require.Equal(t, "/tokenize", e.requests()[0].path)
		require.Contains(t, e.requests()[0].body, `"model":"real-model"`)
		require.Empty(t, h.turns(t, "r1.1"), "no model calls")
	}
}

// The real clients of the three APIs accept the translated text, reasoning, tool calls and tool results,
// streamed or not.
func TestRealClientsOfTranslatedAPIs(t *testing.T) {
	t.Parallel()
	python := pyclient.Interpreter(t, pyclient.ModelClients())
	h, e := newHost(t), newEngine(t, says(chatCall))
	python.Run(t, "testdata/translated.py", h.open(t, h.translatedRoute(e.URL)))

	for i, turn := range h.turns(t, "r1.1") {
		require.True(t, turn.Train, turn.Flaws)
		require.Contains(
			t,
			e.requests()[i].body,
			`"parameters":{"type":"object","properties":{"command":{"type":"string"}}}`,
		)
		// the second call of each client has the result of the tool call
		if i%2 == 1 {
			var sent struct {
				Messages []struct {
					Role       string `json:"role"`
					Content    string `json:"content"`
					ToolCallID string `json:"tool_call_id"`
					Thought    string `json:"reasoning_content"`
				} `json:"messages"`
			}
			require.NoError(t, json.Unmarshal([]byte(e.requests()[i].body), &sent), e.requests()[i].body)
			require.Len(t, sent.Messages, 3)
			require.Equal(t, "Hm <b>", sent.Messages[1].Thought)
			require.Equal(t, "tool", sent.Messages[2].Role)
			require.Equal(t, "call_1", sent.Messages[2].ToolCallID)
			require.Equal(t, "file.txt", sent.Messages[2].Content)
		}
	}
}
