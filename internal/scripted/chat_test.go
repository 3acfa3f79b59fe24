package scripted_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const story = `
- name: loops
  match: again
  loop: true
  turns: [{text: one}, {text: two}]
- name: story
  turns:
    - reasoning: "thinking, <hard>"
      text: "I see: \"x\" é 日本 🙂"
      tool_calls:
        - {name: bash, arguments: {command: "ls -la && echo 'é'", n: 12}}
        - {name: odd, arguments: '{"broken": '}
    - {text: all done, filler: 40}
`

// The stream and the whole reply have the same content, and their tokens, ids and log probabilities match.
func TestStreamAndWholeReplyAgree(t *testing.T) {
	t.Parallel()
	s := serve(t, story)
	choice, reply := s.ask(t, user("go"))
	resp := s.post(t.Context(), t, streamRequest(user("go")))
	require.Contains(t, resp.Header.Get("Content-Type"), "text/event-stream")
	all, done, err := events(resp)
	require.NoError(t, err)
	require.True(t, done)

	got := join(t, all)
	message := choice["message"].(object)
	require.Equal(t, message["content"], got.content)
	require.Equal(t, message["reasoning_content"], got.reasoning)
	require.Equal(t, "tool_calls", got.finish)
	require.Equal(t, message["tool_calls"], got.calls)
	require.Equal(t, choice["token_ids"], got.ids)
	require.Equal(t, reply["prompt_token_ids"], all[0]["prompt_token_ids"])
	require.Equal(t, reply["usage"], all[len(all)-1]["usage"])
	require.Len(t, got.ids, int(reply["usage"].(object)["completion_tokens"].(float64)))
	require.Len(t, got.tokens, len(got.ids))
	text := strings.Join(got.tokens, "")
	require.True(
		t,
		strings.HasPrefix(text, "<think>\nthinking, <hard>\n</think>\n\nI see: \"x\" é 日本 🙂<tool_call>\n"),
		text,
	)
	require.True(t, strings.HasSuffix(text, "\n</tool_call><|im_end|>"), text)

	for _, sent := range s.log.sent(t) {
		require.True(t, sent.Complete)
		require.Equal(t, got.tokens, sent.CompletionTokens)
		require.Len(t, sent.Logprobs, len(sent.CompletionTokenIDs))
		require.Equal(t, got.logprobs, sent.Logprobs)
	}
}

// joined is what a client assembles from a stream.
type joined struct {
	content, reasoning, finish string
	calls, ids                 []any
	tokens                     []string
	logprobs                   []float64
}

func join(t *testing.T, all []object) joined {
	t.Helper()

	var j joined

	for _, e := range all {
		for _, c := range e["choices"].([]any) {
			j.add(t, c.(object))
		}
	}

	return j
}

func (j *joined) add(t *testing.T, choice object) {
	t.Helper()

	delta := choice["delta"].(object)
	text := func(name string) string { s, _ := delta[name].(string); return s }
	j.content += text("content")
	j.reasoning += text("reasoning_content")

	if calls, ok := delta["tool_calls"].([]any); ok {
		call := calls[0].(object)
		if call["id"] != nil {
			delete(call, "index")
			j.calls = append(j.calls, call)
		} else {
			f := j.calls[int(call["index"].(float64))].(object)["function"].(object)
			f["arguments"] = f["arguments"].(string) + call["function"].(object)["arguments"].(string)
		}
	}

	if finish, ok := choice["finish_reason"].(string); ok {
		j.finish = finish
	}

	ids, _ := choice["token_ids"].([]any)
	j.ids = append(j.ids, ids...)

	if lp, ok := choice["logprobs"].(object); ok {
		entries := lp["content"].([]any)
		require.Len(t, entries, len(ids))

		for _, e := range entries {
			j.tokens = append(j.tokens, e.(object)["token"].(string))
			j.logprobs = append(j.logprobs, e.(object)["logprob"].(float64))
			require.Len(t, e.(object)["top_logprobs"].([]any), 3)
		}
	}
}

// The next prompt of a conversation begins with the last prompt and its completion, because trainers build
// their sequences that way. This holds even if the agent has reformatted the tool arguments, as OpenCode
// does.
func TestNextPromptExtendsTheLast(t *testing.T) {
	t.Parallel()
	s := serve(t, story)
	choice, reply := s.ask(t, user("go"))
	before := append(reply["prompt_token_ids"].([]any), choice["token_ids"].([]any)...)

	said := choice["message"].(object)
	f := said["tool_calls"].([]any)[0].(object)["function"].(object)
	f["arguments"] = `{ "n":12, "command":"ls -la \u0026\u0026 echo '\u00e9'" }`
	choice, reply = s.ask(t, user("go"), said, object{"role": "tool", "tool_call_id": "x", "content": "a.txt"})
	after := reply["prompt_token_ids"].([]any)
	require.Equal(t, before, after[:len(before)])
	require.Contains(t, choice["message"].(object)["content"], "all done the")
}

// The server is stateless: the same request gets the same reply, including token ids.
func TestStateless(t *testing.T) {
	t.Parallel()
	s := serve(t, story)
	first, _ := s.ask(t, user("go"))
	second, _ := s.ask(t, user("go"))
	require.Equal(t, first, second)
}

func TestTurnIsCountedFromTheLastUserMessage(t *testing.T) {
	t.Parallel()
	s := serve(t, story)
	said := object{"role": "assistant", "content": "x"}
	text := func(messages ...object) any {
		choice, _ := s.ask(t, messages...)
		return choice["message"].(object)["content"]
	}
	require.Equal(t, "one", text(user("again")))
	require.Equal(t, "two", text(user("again"), said))
	// the script loops
	require.Equal(t, "one", text(user("again"), said, said))
	require.Equal(t, "one", text(user("first"), said, said, user("once again")))
	// past the end of the script
	require.Empty(t, text(user("go"), said, said, said))

	parts := object{
		"role":    "user",
		"content": []any{object{"type": "text", "text": "ag"}, object{"type": "text", "text": "ain"}},
	}
	require.Equal(t, "one", text(parts))
}

func TestAuxiliaryCallsAreAnswered(t *testing.T) {
	t.Parallel()
	s := serve(t, story)
	title, _ := s.ask(t, object{"role": "system", "content": "You are a title generator. You output ONLY a title."},
		user("Generate a title for this conversation:"), user("mend the fizzbuzz script in this directory please"))
	require.Equal(t, "mend the fizzbuzz script in this", title["message"].(object)["content"])
	summary, _ := s.ask(t, object{"role": "system", "content": "You are a context summarization agent."}, user("x"))
	require.NotEmpty(t, summary["message"].(object)["content"])
	require.Equal(t, "stop", summary["finish_reason"])
}

func TestOptionalFieldsAreSentOnRequestOnly(t *testing.T) {
	t.Parallel()
	s := serve(t, story)
	resp := s.post(t.Context(), t, object{"model": "m", "stream": true, "messages": []any{user("again")}})
	require.Equal(t, http.StatusOK, resp.StatusCode)
	all, done, err := events(resp)
	require.NoError(t, err)
	require.True(t, done)

	for _, e := range all {
		require.NotContains(t, e, "prompt_token_ids")
		require.NotContains(t, e, "usage")
		choice := e["choices"].([]any)[0].(object)
		require.Nil(t, choice["logprobs"])
		require.NotContains(t, choice, "token_ids")
	}
}
