package render_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/gateway/dialect/render"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/reply"
	"github.com/rolloutd/rolloutd/internal/rawjson"
)

func TestAssemble(t *testing.T) {
	t.Parallel()

	for _, tc := range []struct{ name, raw, want string }{
		{"text with logprobs", vllmStream, `{"id":"c1","object":"chat.completion","created":7,"model":"m","choices":[{"index":0,
			"message":{"role":"assistant","content":"Hey 😀"},"finish_reason":"stop","logprobs":{"content":[
			{"token":"He","logprob":-0.25,"bytes":[72],"top_logprobs":[{"token":"He","logprob":-0.25},{"token":"}]\"","logprob":-3}]},
			{"token":"y","logprob":-1.5e-1,"top_logprobs":[]},{"token":" 😀","logprob":0,"top_logprobs":[]}]}}],
			"usage":{"prompt_tokens":3,"total_tokens":6,"completion_tokens":3,"prompt_tokens_details":null}}`},
		{"tool calls in pieces, reasoning under both names",
			`data: {"id":"c","choices":[{"delta":{"role":"assistant","reasoning":"hm","reasoning_content":"hm"}}]}

data: {"choices":[{"delta":{"reasoning":"!"}}]}

data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"bash","arguments":""}}]}}]}

data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"x\":"}}]}}]}

data: {"choices":[{"delta":{"tool_calls":[{"index":1,"id":"b","function":{"name":"ls","arguments":"{}"}},{"index":0,"function":{"arguments":"1}"}}]}}]}

data: {"choices":[{"delta":{},"finish_reason":"tool_calls"}]}

`, `{"id":"c","object":"chat.completion","created":null,"model":null,"choices":[{"index":0,"message":{"role":"assistant","content":null,"reasoning_content":"hm!","reasoning":"hm!",
			"tool_calls":[{"id":"a","type":"function","function":{"name":"bash","arguments":"{\"x\":1}"}},{"id":"b","type":"function","function":{"name":"ls","arguments":"{}"}}]},
			"logprobs":null,"finish_reason":"tool_calls"}],"usage":null}`},
		{"a character in two halves, arguments that are no string", `data: {"id":"c","choices":[{"delta":{"content":"\ud83d"}}]}

data: {"choices":[{"delta":{"content":"\ude00","tool_calls":[{"id":"a","function":{"name":"f","arguments":{"q":"\""}}}]}}]}

`, `{"id":"c","object":"chat.completion","created":null,"model":null,"choices":[{"index":0,"message":{"role":"assistant","content":"😀",
			"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{\"q\":\"\\\"\"}"}}]},"logprobs":null,"finish_reason":null}],"usage":null}`},
		{"whole calls, all under one index", `data: {"id":"c","choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]}}]}

data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"b","function":{"name":"g","arguments":"{\"x\":"}}]}}]}

data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"other","function":{"arguments":"1}"}}]}}]}

`, `{"id":"c","object":"chat.completion","created":null,"model":null,"choices":[{"index":0,"message":{"role":"assistant","content":null,
			"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"other","type":"function","function":{"name":"g","arguments":"{\"x\":1}"}}]},
			"logprobs":null,"finish_reason":null}],"usage":null}`},
		{"a function call as before tools", `data: {"id":"c","choices":[{"delta":{"role":"assistant","content":null,"function_call":{"name":"f","arguments":""}}}]}

data: {"choices":[{"delta":{"function_call":{"arguments":"{\"x\":1}"}},"finish_reason":"function_call"}]}

`, `{"id":"c","object":"chat.completion","created":null,"model":null,"choices":[{"index":0,"message":{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{\"x\":1}"}},
			"logprobs":null,"finish_reason":"function_call"}],"usage":null}`},
		{"half a reply", "data: {\"id\":\"c\",\"choices\":[{\"delta\":{\"content\":\"Hal\"}}]}\n\ndata: {\"id\":\"c\",\"cho",
			`{"id":"c","object":"chat.completion","created":null,"model":null,"choices":[{"index":0,"message":{"role":"assistant","content":"Hal"},"logprobs":null,"finish_reason":null}],"usage":null}`},
		{"numbers that are none", "data: {\"id\":\"c\",\"choices\":[{\"delta\":{\"content\":\"NaN\"},\"logprobs\":{\"content\":[{\"token\":\"NaN\",\"logprob\":-Infinity}]},\"finish_reason\":\"stop\"}]}\n\n",
			`{"id":"c","object":"chat.completion","created":null,"model":null,"choices":[{"index":0,"message":{"role":"assistant","content":"NaN"},"logprobs":{"content":[{"token":"NaN","logprob":null}]},"finish_reason":"stop"}],"usage":null}`},
		{"one object already", ` {"id":"u","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"x","reasoning":"r"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1}}`,
			`{"id":"u","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"x","reasoning_content":"r","reasoning":"r"},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":1}}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()

			got, err := render.Assemble(reply.Chat, render.View{
				Logprobs: true,
				Top:      -1,
				Usage:    true,
			}.Of([]byte(tc.raw)))
			require.NoError(t, err)
			require.JSONEq(t, tc.want, string(got.JSON()))
		})
	}
}

func TestTokens(t *testing.T) {
	t.Parallel()

	c, err := render.Assemble(reply.Chat, []byte(vllmStream))
	require.NoError(t, err)
	require.Equal(t, []string{"He", "y", " 😀"}, c.Tokens())
	require.Nil(t, render.View{API: reply.Chat}.Empty("m").Tokens())
	c, err = render.Assemble(
		reply.Chat,
		[]byte(`data: {"choices":[{"logprobs":{"content":[{"logprob":-1},{"token":"\ud83d\ude00"},7]}}]}`+"\n\n"),
	)
	require.NoError(t, err)
	require.Equal(t, []string{"", "😀", ""}, c.Tokens())
}

// A completion written by Events is read back unchanged.
func TestEventsRoundTrip(t *testing.T) {
	t.Parallel()

	for _, raw := range []string{
		vllmStream,
		`{"id":"u","created":1,"model":"m","choices":[{"message":{"role":"assistant","content":null,"reasoning_content":"r","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{\"a\":\"<&>\"}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":1}}`,
	} {
		want, err := render.Assemble(reply.Chat, []byte(raw))
		require.NoError(t, err)

		stream := want.Events()
		got, err := render.Assemble(reply.Chat, stream)
		require.NoError(t, err)
		require.JSONEq(t, string(want.JSON()), string(got.JSON()))
		s := read(t, string(stream), 5)
		require.True(t, s.Done())
		require.NotEmpty(t, s.FinishReason)
	}
}

func TestFinite(t *testing.T) {
	t.Parallel()
	require.Equal(t, `{"a":null,"b":null,"c":null,"d":"NaN -Infinity \" NaN"}`,
		string(rawjson.Finite([]byte(`{"a":NaN,"b":-Infinity,"c":Infinity,"d":"NaN -Infinity \" NaN"}`))))
	require.Equal(t, `{"a":1}`, string(rawjson.Finite([]byte(`{"a":1}`))))
}

// Content that is a list of parts, as in Mistral's API for reasoning models, is not lost.
func TestContentOfParts(t *testing.T) {
	t.Parallel()

	raw := "data: " + `{"choices":[{"delta":{"role":"assistant","content":[{"type":"thinking","thinking":[{"type":"text","text":"H\u0069"},7,{"type":"text","text":"m. "}]}]}}]}` + "\n\n" +
		"data: " + `{"choices":[{"delta":{"content":[{"type":"thinking","thinking":"So."},{"type":"text","text":"T"}, null]}}]}` + "\n\n" +
		"data: " + `{"choices":[{"delta":{"content":"wo"},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n"
	whole, err := render.Assemble(reply.Chat, []byte(raw))
	require.NoError(t, err)
	require.Contains(
		t,
		string(whole.JSON()),
		`"message":{"role":"assistant","content":"Two","reasoning_content":"H\u0069m. So."}`,
	)
}
