package gateway_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// oddPiece returns an event of a chat completion with a delta and a finish reason, which is raw.
func oddPiece(delta, finish string) string {
	return `data: {"id":"c1","object":"chat.completion.chunk","created":7,"model":"real-model","choices":[{"index":0,"delta":` + delta + `,"finish_reason":` + finish + `}]}` + "\n\n"
}

const (
	oddHead = `data: {"id":"c1","object":"chat.completion.chunk","created":7,"model":"real-model","choices":[{"index":0,"delta":{"role":"assistant","content":"I run it."},"logprobs":{"content":[{"token":"I","logprob":-0.5}]},"finish_reason":null,"token_ids":[10]}],"prompt_token_ids":[1,2,3]}` + "\n\n"
	oddEnd  = `data: {"id":"c1","object":"chat.completion.chunk","created":7,"model":"real-model","choices":[{"index":0,"delta":{},"logprobs":{"content":[{"token":"!","logprob":-0.25}]},"finish_reason":"stop","token_ids":[11]}]}` + "\n\n" +
		`data: {"id":"c1","object":"chat.completion.chunk","created":7,"model":"real-model","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}` + "\n\ndata: [DONE]\n\n"
)

// oddCalls is a reply with two calls that share an index and have neither ids nor encoded arguments; its
// finish reason denies them.
func oddCalls() string {
	return oddHead + oddPiece(
		`{"tool_calls":[{"index":0,"type":"function","function":{"name":"bash","arguments":{"command":"one"}}}]}`,
		"null",
	) +
		oddPiece(
			`{"tool_calls":[{"index":0,"type":"function","function":{"name":"bash","arguments":{"command":"two"}}}]}`,
			"null",
		) + oddEnd
}

// chatReply is what a client sees of a chat completion, of the whole or of its stream's only chunk with calls.
type chatReply struct {
	Choices []struct {
		Delta, Message struct {
			Content string
			Calls   []struct {
				Index    int
				ID       string
				Function struct{ Name, Arguments string }
			} `json:"tool_calls"`
		}
		Finish string `json:"finish_reason"`
	}
}

// The agent of each API gets the calls of an odd reply as the gateway understands them, streamed or not.
// The record has the same calls, and the engine's tokens.
func TestOddCallsInEachAPI(t *testing.T) {
	t.Parallel()

	asks := map[string]string{"/v1/chat/completions stream": streamed, "/v1/chat/completions": unary}

	for _, c := range translatedAPIs() {
		path, body := c.stream()
		asks[c.path], asks[path+" stream"] = c.ask+"}", body
	}

	for call, body := range asks {
		t.Run(call, func(t *testing.T) {
			t.Parallel()

			path, stream := strings.CutSuffix(call, " stream")
			h, e := newHost(t), newEngine(t, says(oddCalls()))

			r := h.route(e.URL)
			if path != "/v1/chat/completions" {
				r = h.translatedRoute(e.URL)
			}

			url := h.open(t, r)
			got := sendTo(t.Context(), url+path, "call", body)
			require.Equal(t, http.StatusOK, got.status, got.body)

			for _, piece := range []string{"I run it.", "one", "two"} {
				require.Contains(t, got.body, piece)
			}

			require.Equal(t, got.body, sendTo(t.Context(), url+path, "call", body).body, "from its record")

			turns := h.turns(t, "r1.1")
			require.Len(t, turns, 1)
			requireOddTurn(t, turns[0])

			ids := idsOf(t, turns[0].Response)
			for _, id := range ids {
				require.Contains(t, strings.ReplaceAll(got.body, `\"`, `"`), id)
			}

			if path == "/v1/chat/completions" && !stream {
				require.Equal(t, ids, idsOf(t, []byte(got.body)))
			}

			require.Len(t, e.requests(), 1)
		})
	}
}

func requireOddTurn(t *testing.T, turn rollout.Turn) {
	t.Helper()
	require.True(t, turn.Train)
	require.Equal(t, "a tool call whose arguments are not a string", turn.Repaired)
	require.Equal(t, "tool_calls", turn.FinishReason)
	require.Equal(t, []int32{1, 2, 3}, turn.PromptTokenIDs)
	require.Equal(t, []int32{10, 11}, turn.CompletionTokenIDs)
	require.Equal(t, []float64{-0.5, -0.25}, turn.PerTokenLogps)
	require.Empty(t, turn.Flaws)
}

// idsOf returns the ids of the two calls of oddCalls, in a whole chat completion.
func idsOf(t *testing.T, object []byte) []string {
	t.Helper()

	var r chatReply
	require.NoError(t, json.Unmarshal(object, &r), "%s", object)
	require.Len(t, r.Choices, 1)
	require.Equal(t, "I run it.", r.Choices[0].Message.Content)
	require.Equal(t, "tool_calls", r.Choices[0].Finish)

	var ids []string

	for i, c := range r.Choices[0].Message.Calls {
		require.Equal(t, "bash", c.Function.Name)
		require.JSONEq(t, []string{`{"command":"one"}`, `{"command":"two"}`}[i], c.Function.Arguments)
		require.Regexp(t, `^[0-9a-f]{9}$`, c.ID)
		ids = append(ids, c.ID)
	}

	require.Len(t, ids, 2)
	require.NotEqual(t, ids[0], ids[1])

	return ids
}

// A reply that is passed on as it arrives is rewritten from its first tool call on; the agent has seen only
// what came before.
func TestOddCallsPassedThrough(t *testing.T) {
	t.Parallel()
	h, e := newHost(t, passThrough), newEngine(t, says(oddCalls()))
	got := send(t.Context(), h.open(t, h.route(e.URL)), "", streamed)
	require.NoError(t, got.err)
	require.True(t, strings.HasPrefix(got.body, oddHead), got.body)

	var calls []string

	for _, event := range strings.Split(strings.TrimSpace(got.body), "\n\n") {
		var r chatReply
		if data := strings.TrimPrefix(event, "data: "); data != "[DONE]" {
			require.NoError(t, json.Unmarshal([]byte(data), &r), data)
		}

		for _, c := range r.Choices {
			for _, call := range c.Delta.Calls {
				calls = append(calls, fmt.Sprint(call.Index, call.Function))
			}
		}
	}

	require.Equal(t, []string{`0 {bash {"command":"one"}}`, `1 {bash {"command":"two"}}`}, calls)
	turns := h.turns(t, "r1.1")
	require.Len(t, turns, 1)
	requireOddTurn(t, turns[0])
	require.True(t, turns[0].Delivered)
}

// An agent that uses functions, as before tools, gets a function call.
func TestFunctionCallOfAnOlderAgent(t *testing.T) {
	t.Parallel()

	raw := oddHead + oddPiece(
		`{"function_call":{"name":"bash","arguments":"{}"}}`,
		"null",
	) + strings.Replace(
		oddEnd,
		`"stop"`,
		`"function_call"`,
		1,
	)
	h, e := newHost(t), newEngine(t, says(raw))
	url := h.open(t, h.route(e.URL))
	older := send(t.Context(), url, "", strings.Replace(unary, `{"model"`, `{"functions":[{"name":"bash"}],"model"`, 1))
	require.Contains(t, older.body, `"function_call":{"name":"bash","arguments":"{}"}`)
	require.Contains(t, older.body, `"finish_reason":"function_call"`)
	require.NotContains(t, older.body, "tool_calls")
	newer := send(t.Context(), url, "", unary)
	require.Contains(t, newer.body, `"type":"function","function":{"name":"bash","arguments":"{}"}`)
	require.NotContains(t, newer.body, "function_call")
}

// saysNothing returns a complete stream that says nothing, with a finish reason and, unless it is negative,
// a number of tokens.
func saysNothing(finish string, tokens int) string {
	s := oddPiece(`{"role":"assistant","content":""}`, "null") + oddPiece(`{}`, `"`+finish+`"`)
	if tokens >= 0 {
		s += fmt.Sprintf(
			`data: {"id":"c1","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":%d}}`+"\n\n",
			tokens,
		)
	}

	return s + "data: [DONE]\n\n"
}

// A reply that says nothing and has no token is not the model's. It is tried again a few times; then the
// endpoint has failed.
func TestEmptyReplies(t *testing.T) {
	t.Parallel()

	for name, raw := range map[string]string{
		"an unknown finish reason":         saysNothing("some_new_reason", -1),
		"an unknown finish reason, counts": saysNothing("some_new_reason", 0),
		"stop":                             saysNothing("stop", 0),
		"stop, no counts":                  saysNothing("stop", -1),
		"tool calls without any":           saysNothing("tool_calls", 0),
		"one object":                       `{"choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[]},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":0}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, e := newHost(t), newEngine(t, says(raw))
			url := h.open(t, h.route(e.URL))
			got := send(t.Context(), url, "", streamed)
			require.Equal(t, http.StatusBadRequest, got.status, got.body)
			require.Len(t, e.requests(), 8)
			require.Equal(t, fault.UpstreamFailed, h.status(t, "r1.1").Failure.Kind)
			turns := h.turns(t, "r1.1")
			require.Len(t, turns, 1)
			require.Contains(t, turns[0].Broken, "the reply is empty")
			require.False(t, turns[0].Train)
		})
	}

	h, e := newHost(t), newEngine(t, says(saysNothing("stop", 0)), says(goodReply))
	require.Equal(t, goodReply, send(t.Context(), h.open(t, h.route(e.URL)), "", streamed).body)
	require.Nil(t, h.status(t, "r1.1").Failure)
	require.Len(t, e.requests(), 2)
}

// A policy cannot have its attempt repeated by saying nothing: what it sampled, or what its prompt caused,
// is its own reply.
func TestPoliciesThatSayNothing(t *testing.T) {
	t.Parallel()

	refuses := strict(
		"stream_options",
		422,
		`{"detail":[{"type":"extra_forbidden","loc":["body","stream_options"],"msg":"Extra inputs are not permitted"}]}`,
		saysNothing("stop", -1),
	)

	plain := strings.Replace(streamed, `"stream_options":{"include_usage":true},`, "", 1)
	for name, tc := range map[string]struct {
		step        http.HandlerFunc
		ask, finish string
		requests    int
	}{
		"the end of its turn at once": {step: says(saysNothing("stop", 1)), finish: "stop", requests: 1},
		"a call that its parser cannot read": {
			step:     says(saysNothing("tool_calls", 40)),
			finish:   "stop",
			requests: 1,
		},
		"tokens that end for an unknown reason": {
			step:     says(saysNothing("repetition", 40)),
			finish:   "stop",
			requests: 1,
		},
		"a prompt without room for a reply": {step: says(saysNothing("length", 0)), finish: "length", requests: 1},
		"a prompt that fills the context": {
			step:     says(saysNothing("model_context_window_exceeded", 0)),
			finish:   "stop",
			requests: 1,
		},
		"a prompt that a filter refuses": {
			step:     says(saysNothing("content_filter", 0)),
			finish:   "content_filter",
			requests: 1,
		},
		"an endpoint that does not count": {step: refuses, ask: plain, finish: "stop", requests: 2},
		"a blank": {
			step:     says(oddPiece(`{"role":"assistant","content":" "}`, "null") + oddPiece(`{}`, `"stop"`) + "data: [DONE]\n\n"),
			finish:   "stop",
			requests: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, e := newHost(t), newEngine(t, tc.step)
			r := h.route(e.URL)

			ask := streamed
			if tc.ask != "" {
				ask, r.Model.TokenIDs, r.Model.Logprobs = tc.ask, false, false
			}

			got := send(t.Context(), h.open(t, r), "", ask)
			require.Equal(t, http.StatusOK, got.status, got.body)
			require.Contains(t, got.body, `"finish_reason":"`+tc.finish+`"`)
			require.Len(t, e.requests(), tc.requests)
			require.Nil(t, h.status(t, "r1.1").Failure)
			turns := h.turns(t, "r1.1")
			require.Empty(t, turns[0].Broken)
			require.Equal(t, tc.finish, turns[0].FinishReason)
		})
	}
}

// A reply with a value that cannot be understood is broken.
func TestCallsThatCannotBeUnderstood(t *testing.T) {
	t.Parallel()
	h, e := newHost(t), newEngine(t, says(oddHead+oddPiece(`{"tool_calls":"bash"}`, "null")+oddEnd), says(goodReply))
	require.Equal(t, goodReply, send(t.Context(), h.open(t, h.route(e.URL)), "", streamed).body)
	require.Equal(t, 2, h.turns(t, "r1.1")[0].UpstreamTries)
}

// Together has a number for the log probabilities of each piece of a stream. The agent gets the reply, and nothing of
// them.
func TestNumbersForLogprobs(t *testing.T) {
	t.Parallel()

	for _, finish := range []string{"stop", "eos"} {
		said := strings.NewReplacer(
			`{"content":[{"token":"Hel","logprob":-0.5,"bytes":[72],"top_logprobs":[]}]}`, `-0.5`,
			`{"content":[{"token":"lo","logprob":-0.25,"bytes":[108],"top_logprobs":[]}]}`, `-0.25`,
			`"finish_reason":"stop"`, `"finish_reason":"`+finish+`"`,
		).Replace(goodReply)
		h, e := newHost(t), newEngine(t, says(said))

		got := send(t.Context(), h.open(t, h.route(e.URL)), "", `{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`)
		require.Equal(t, http.StatusOK, got.status, got.body)
		require.Contains(t, got.body, `"finish_reason":"stop"`)
		require.NotContains(t, got.body, `-0.`)
		require.Len(t, e.requests(), 1)
		require.False(t, h.turns(t, "r1.1")[0].Train)
	}
}
