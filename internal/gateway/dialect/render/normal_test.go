package render_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/gateway/dialect/render"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/reply"
	"github.com/rolloutd/rolloutd/internal/rawjson"
)

// head is the beginning of a stream that is usual in every reply.
const head = `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}],"prompt_token_ids":[1,2,3]}` + "\n\n"

// chunk returns an event with a delta and, unless it is "", a finish reason.
func chunk(delta, finish string) string {
	reason := "null"
	if finish != "" {
		reason = `"` + finish + `"`
	}

	return `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":` + delta + `,"finish_reason":` + reason + `}]}` + "\n\n"
}

const done = "data: [DONE]\n\n"

// normal reads a reply as the gateway does, and returns it as the agent gets it, with the reason why it was rewritten.
func normal(raw string) (said []byte, why string, err error) {
	s := reply.NewStream(&reply.Reply{API: reply.Chat})
	if err := s.Advance(copy(s.Room(len(raw)), raw)); err != nil {
		return nil, "", err
	}

	if rawjson.IsObject(s.Raw()) {
		if err := s.Event(s.Raw()); err != nil {
			return nil, "", err
		}
	}

	if err := s.Close(); err != nil {
		return nil, "", err
	}

	if s.Irregular == "" {
		return []byte(raw), "", nil
	}

	n := render.Normal{ID: func(n int) string { return fmt.Sprintf("made%d", n) }}

	said, err = n.Of([]byte(raw), s.Prelude, s.Irregular)
	if said == nil && err == nil {
		return []byte(raw), "", nil
	}

	return said, s.Irregular, err
}

// wire is what a client of OpenAI's API makes of a chunk or a completion.
type wire struct {
	Choices []struct {
		Delta, Message struct {
			Role      *string
			Content   *string
			Reasoning *string `json:"reasoning_content"`
			Calls     []struct {
				Index    int
				ID       *string
				Function struct {
					Name      *string
					Arguments string
				}
			} `json:"tool_calls"`
		}
		Finish *string `json:"finish_reason"`
	}
}

// understood reads a reply as strictly as clients do: text, calls as "id name arguments", finish reason.
func understood(raw []byte) (text string, calls []string, finish string, err error) {
	events := []string{string(raw)}
	if !rawjson.IsObject(raw) {
		events = strings.Split(strings.TrimSpace(string(raw)), "\n\n")
	}

	var list [][3]string

	for _, event := range events {
		data := strings.TrimPrefix(event, "data: ")
		if data == "[DONE]" {
			continue
		}

		var w wire
		if err := json.Unmarshal([]byte(data), &w); err != nil {
			return "", nil, "", fmt.Errorf("%s: %w", data, err)
		}

		if w.Choices == nil {
			return "", nil, "", fmt.Errorf("%s: without choices", data)
		}

		for _, c := range w.Choices[:min(1, len(w.Choices))] {
			m := c.Delta
			if rawjson.IsObject(raw) {
				m = c.Message
			}

			if m.Content != nil {
				text += *m.Content
			}

			for i, call := range m.Calls {
				at := call.Index
				if rawjson.IsObject(raw) {
					at = i
				}

				switch {
				case at < len(list):
				case at > len(list) || call.ID == nil || *call.ID == "" || call.Function.Name == nil:
					return "", nil, "", fmt.Errorf("%s: a call cannot begin like this", data)
				default:
					list = append(list, [3]string{*call.ID, *call.Function.Name})
				}

				list[at][2] += call.Function.Arguments
			}

			if c.Finish != nil {
				finish = *c.Finish
			}
		}
	}

	for _, call := range list {
		calls = append(calls, strings.Join(call[:], " "))
	}

	return text, calls, finish, nil
}

// An irregular reply reaches agents in OpenAI's form, and the record has the same.
func TestNormal(t *testing.T) {
	t.Parallel()

	call := func(members string) string { return `{"tool_calls":[{"type":"function",` + members + `}]}` }

	const bash = `"function":{"name":"bash","arguments":"{}"}`

	end := chunk(`{}`, "tool_calls") + done
	for _, tc := range []struct {
		name, raw string
		text      string
		calls     []string
		finish    string
		why       string
	}{
		{"a shared index", head + chunk(call(`"index":0,"id":"a",`+bash), "") + chunk(call(`"index":0,"id":"b",`+bash), "") + end, "", []string{"a bash {}", "b bash {}"}, "tool_calls", "same index"},
		{"no index", head + chunk(call(`"id":"a",`+bash), "") + chunk(call(`"id":"b",`+bash), "") + end, "", []string{"a bash {}", "b bash {}"}, "tool_calls", "without index"},
		{"no ids", head + chunk(call(`"index":0,`+bash), "") + chunk(call(`"index":1,"id":"",`+bash), "") + end, "", []string{"made0 bash {}", "made1 bash {}"}, "tool_calls", "without id"},
		{"equal ids", head + chunk(call(`"index":0,"id":"a",`+bash), "") + chunk(call(`"index":1,"id":"a",`+bash), "") + end, "", []string{"a bash {}", "made1 bash {}"}, "tool_calls", "same id"},
		{"an id as the gateway makes them", head + chunk(call(`"index":0,"id":"made1",`+bash), "") + chunk(call(`"index":1,`+bash), "") + end, "", []string{"made1 bash {}", "made1025 bash {}"}, "tool_calls", "without id"},
		{"arguments as an object", head + chunk(call(`"index":0,"id":"a","function":{"name":"bash","arguments":{"x":"<"}}`), "") + end, "", []string{`a bash {"x":"<"}`}, "tool_calls", "arguments are not a string"},
		{"no arguments", head + chunk(call(`"index":0,"id":"a","function":{"name":"bash","arguments":""}`), "") + end, "", []string{`a bash {}`}, "tool_calls", "arguments"},
		{"a repeated name", head + chunk(call(`"index":0,"id":"a","function":{"name":"bash","arguments":"{"}`), "") + chunk(call(`"index":0,"id":"a","function":{"name":"bash","arguments":"}"}`), "") + end, "", []string{`a bash {}`}, "tool_calls", "repeats"},
		{"a call after a text", head + chunk(`{"content":"I run it."}`, "") + chunk(call(`"index":0,`+bash), "") + end, "I run it.", []string{"made0 bash {}"}, "tool_calls", "without id"},
		{"a function call", head + chunk(`{"function_call":{"name":"bash","arguments":"{"}}`, "") + chunk(`{"function_call":{"arguments":"}"}}`, "function_call") + done, "", []string{"made0 bash {}"}, "tool_calls", "function_call"},
		{"a call under both names", head + chunk(`{"function_call":{"name":"bash","arguments":"{}"}}`, "") + chunk(call(`"index":0,"id":"a",`+bash), "") + end, "", []string{"a bash {}"}, "tool_calls", "function_call"},
		{"calls and stop", head + chunk(call(`"index":0,"id":"a",`+bash), "") + chunk(`{}`, "stop") + done, "", []string{"a bash {}"}, "tool_calls", `finish reason "stop" with a tool call`},
		{"two finish reasons", head + chunk(call(`"index":0,"id":"a",`+bash), "tool_calls") + chunk(`{}`, "stop") + done, "", []string{"a bash {}"}, "tool_calls", "several finish reasons"},
		{"an empty finish reason at the end", head + chunk(`{"content":"Hi"}`, "stop") + strings.Replace(chunk(`{}`, "x"), `"x"`, `""`, 1) + done, "Hi", nil, "stop", "several finish reasons"},
		{"a finish reason as an object", head + strings.Replace(chunk(`{"content":"Hi"}`, "x"), `"x"`, `{"type":"stop","matched":7}`, 1) + done, "Hi", nil, "stop", "not a string"},
		{"no calls", head + chunk(`{"content":"Hi"}`, "") + end, "Hi", nil, "stop", "without a tool call"},
		{"an unknown finish reason", head + chunk(`{"content":"Hi"}`, "some_new_reason") + done, "Hi", nil, "stop", "some_new_reason"},
		{"an unknown finish reason of a call", head + chunk(call(`"index":0,"id":"a",`+bash), "eos_token") + done, "", []string{"a bash {}"}, "tool_calls", "eos_token"},
		{"another word for the limit", head + chunk(`{"content":"Hi"}`, "max_tokens") + done, "Hi", nil, "length", "max_tokens"},
		{"a call that the limit cut off", head + chunk(call(`"index":0,"id":"a","function":{"name":"bash","arguments":"{\"x"}`), "length") + done, "", []string{`a bash {"x`}, "length", ""},
		{"the model's own broken arguments", head + chunk(call(`"index":0,"id":"a","function":{"name":"bash","arguments":"{\"x"}`), "") + end, "", []string{`a bash {"x`}, "tool_calls", ""},
		{"content of parts", head + chunk(`{"content":[{"type":"text","text":"Hi"}]}`, "stop") + done, "Hi", nil, "stop", "not a string"},
		{"another role", head + chunk(`{"role":"","content":"Hi"}`, "stop") + done, "Hi", nil, "stop", "role"},
		{"a message in a stream", `data: {"id":"c","choices":[{"index":0,"message":{"role":"assistant","content":"Hi","tool_calls":[{"id":"a",` + bash + `}]},"finish_reason":"tool_calls"}]}` + "\n\n" + done, "Hi", []string{"a bash {}"}, "tool_calls", "message in a stream"},
		{"a summary", head + chunk(`{"content":"Hi"}`, "") + chunk(call(`"index":0,"id":"a",`+bash), "") + `data: {"choices":[{"index":0,"delta":{},"message":{"content":"Hi","tool_calls":[{"id":"a",` + bash + `}]},"finish_reason":"tool_calls"}]}` + "\n\n" + done, "Hi", []string{"a bash {}"}, "tool_calls", "same id"},
		{"counts without choices", head + chunk(`{"content":"Hi"}`, "stop") + `data: {"usage":{"prompt_tokens":3,"completion_tokens":1}}` + "\n\n" + done, "Hi", nil, "stop", "without choices"},
		{"counts in the middle", head + `data: {"choices":null,"usage":{"prompt_tokens":3,"completion_tokens":1}}` + "\n\n" + chunk(`{"content":"Hi"}`, "stop") + done, "Hi", nil, "stop", "without choices"},
		{"two choices", head + `data: {"choices":[{"index":0,"delta":{"content":"Hi"}},{"index":1,"delta":{"content":"Ho"}}]}` + "\n\n" + chunk(`{}`, "stop") + done, "Hi", nil, "stop", "several choices"},
		{"two choices, one after another", head + chunk(`{"content":"Hi"}`, "stop") + strings.Replace(chunk(`{"content":"Ho"}`, "stop"), `"index":0`, `"index":1`, 1) + done, "Hi", nil, "stop", "index is not 0"},
		{"a text instead of a message", `data: {"choices":[{"index":0,"text":"Hi","finish_reason":"stop"}]}` + "\n\n" + done, "Hi", nil, "stop", "text instead"},

		{"an object with a delta", `{"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":"stop"}]}`, "Hi", nil, "stop", "not a stream"},
		{"an object with calls without ids", `{"choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[{` + bash + `},{"index":0,"id":"","function":{"name":"ls","arguments":{"x":1}}}]},"finish_reason":"stop"}]}`,
			"", []string{"made0 bash {}", `made1 ls {"x":1}`}, "tool_calls", "without id"},

		{"a usual call", head + chunk(call(`"index":0,"id":"a",`+bash), "") + end, "", []string{"a bash {}"}, "tool_calls", ""},
		{"a usual text without an end mark", head + chunk(`{"content":"Hi"}`, "stop"), "Hi", nil, "stop", ""},
		{"nulls", head + chunk(`{"role":null,"content":"Hi","reasoning_content":null,"tool_calls":null,"function_call":null}`, "stop") + chunk(`{"tool_calls":[]}`, "") + done, "Hi", nil, "stop", ""},
		{"a usual object", `{"choices":[{"index":0,"message":{"role":"assistant","content":"Hi","tool_calls":[]},"finish_reason":"stop"}]}`, "Hi", nil, "stop", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()

			said, why, err := normal(tc.raw)
			require.NoError(t, err)

			if tc.why == "" {
				require.Empty(t, why)
				require.Equal(t, tc.raw, string(said))
			} else {
				require.Contains(t, why, tc.why)
			}

			requireUnderstood(t, said, tc.text, tc.calls, tc.finish)
			again, why, err := normal(string(said))
			require.NoError(t, err)
			require.Empty(t, why, "%s", said)
			require.Equal(t, said, again)

			whole, err := render.Assemble(reply.Chat, said)
			require.NoError(t, err)
			requireUnderstood(t, whole.JSON(), tc.text, tc.calls, tc.finish)

			if strings.HasPrefix(tc.raw, head) {
				require.True(t, strings.HasPrefix(string(said), head), "what an agent may have seen is kept: %s", said)
			}
		})
	}
}

func requireUnderstood(t *testing.T, said []byte, text string, calls []string, finish string) {
	t.Helper()

	gotText, gotCalls, gotFinish, err := understood(said)
	require.NoError(t, err)
	require.Equal(t, text, gotText, "%s", said)
	require.Equal(t, calls, gotCalls, "%s", said)
	require.Equal(t, finish, gotFinish, "%s", said)
}

// Ids, logprobs and counts of a rewritten reply are those of the endpoint, and the prompt's ids are not moved.
func TestNormalKeepsTokens(t *testing.T) {
	t.Parallel()

	raw := head + `data: {"id":"c","choices":[{"index":0,"delta":{"content":"x"},"logprobs":{"content":[{"token":"x","logprob":-1}]},"token_ids":[5]}]}` + "\n\n" +
		`data: {"id":"c","choices":[{"index":0,"delta":{"tool_calls":[{"function":{"name":"f","arguments":{}}}]},"logprobs":{"content":[{"token":"y","logprob":-2}]},"token_ids":[6]}]}` + "\n\n" +
		`data: {"id":"c","choices":[{"index":0,"delta":{},"logprobs":{"content":[{"token":"z","logprob":-3}]},"finish_reason":"stop","stop_reason":7,"token_ids":[7]}]}` + "\n\n" +
		`data: {"id":"c","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":3}}` + "\n\n" + done
	said, why, err := normal(raw)
	require.NoError(t, err)
	require.NotEmpty(t, why)

	for _, r := range []string{raw, string(said)} {
		s := read(t, r, 7)
		require.Equal(t, []int32{1, 2, 3}, s.PromptTokenIDs)
		require.Equal(t, []int32{5, 6, 7}, s.TokenIDs)
		require.Equal(t, []float64{-1, -2, -3}, s.Logprobs)
		require.EqualValues(t, 3, s.Usage.CompletionTokens)
		require.Equal(t, "[1,2,3]", r[s.PromptAt.Start:s.PromptAt.End])
	}

	require.Contains(t, string(said), `"stop_reason":7`)
}

// A model may write more calls than the gateway joins. That does not make the reply a broken one, with
// which the policy could have its attempt repeated.
func TestMoreCallsThanAreJoined(t *testing.T) {
	t.Parallel()

	for _, index := range []string{"0", "%d"} {
		raw := head

		for i := range 1100 {
			at := strings.ReplaceAll(index, "%d", fmt.Sprint(i))
			raw += chunk(
				fmt.Sprintf(`{"tool_calls":[{"index":%s,"id":"c%d","function":{"name":"f","arguments":"{}"}}]}`, at, i),
				"",
			)
		}

		raw += chunk(`{}`, "tool_calls") + done
		said, why, err := normal(raw)
		require.NoError(t, err)
		require.Empty(t, why)
		require.Equal(t, raw, string(said))
	}
}

// A value that is no list of calls cannot be understood.
func TestNotACompletion(t *testing.T) {
	t.Parallel()

	for _, raw := range []string{
		head + chunk(`{"tool_calls":"bash"}`, "") + chunk(`{}`, "tool_calls") + done,
		head + chunk(`{"tool_calls":[7]}`, "") + chunk(`{}`, "tool_calls") + done,
		head + chunk(`"Hi"`, "stop") + done,
		head + strings.Replace(chunk(`{}`, "x"), `"x"`, "7", 1) + done,
	} {
		_, _, err := normal(raw)
		require.Error(t, err, raw)
	}
}

// Whatever an endpoint sends: a rewritten reply is one that strict clients read, it needs no second
// rewriting, and its record is the same.
func FuzzNormal(f *testing.F) {
	f.Add(head + chunk(`{"tool_calls":[{"function":{"name":"f","arguments":{"x":1}}}]}`, "stop") + done)
	f.Add(
		head + chunk(
			`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{"}}]}`,
			"",
		) + chunk(
			`{"tool_calls":[{"index":0,"id":"b","function":{"name":"f","arguments":"{}"}}]}`,
			"eos",
		) + done,
	)
	f.Add(
		`{"choices":[{"index":0,"delta":{"content":[{"text":"Hi"}],"function_call":{"name":"f"}},"finish_reason":{"type":"x"}},{"index":1}],"usage":{}}`,
	)
	f.Add(`data: {"choices":[{"message":{"content":"Hi","tool_calls":[{}]},"finish_reason":"tool_calls"}]}` + "\n\n")
	f.Fuzz(func(t *testing.T, raw string) {
		said, why, err := normal(raw)
		if err != nil || why == "" {
			return
		}

		for _, event := range strings.Split(strings.TrimSpace(string(said)), "\n\n") {
			if data := strings.TrimPrefix(event, "data: "); data != "[DONE]" && !json.Valid([]byte(data)) {
				// the cursor steps over values without reading them
				return
			}
		}

		s := reply.NewStream(&reply.Reply{API: reply.Chat})
		if s.Advance(copy(s.Room(len(said)), said)) != nil || rawjson.IsObject(said) && s.Event(said) != nil ||
			s.Close() != nil ||
			s.FinishReason == "" {
			// as much of it as was kept
			return
		}

		_, again, err := normal(string(said))
		require.NoError(t, err)
		require.Empty(t, again, "%s\n%s", raw, said)
		_, _, _, err = understood(said)
		require.NoError(t, err)
	})
}
