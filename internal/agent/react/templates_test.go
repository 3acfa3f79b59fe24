package react_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/agent/react"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// chatMessage is a message of a template.
type chatMessage struct{ Role, Content string }

// template makes a prompt of tokens, which ends where a reply begins. Special tokens are in angle brackets.
type template func(messages []chatMessage) []string

// words are the tokens of a text.
func words(text string) []string { return strings.SplitAfter(text, " ") }

// plainTemplate ends each turn with one token and a newline.
func plainTemplate(messages []chatMessage) []string {
	var out []string
	for _, m := range messages {
		out = append(append(append(out, "<start>", m.Role, "\n"), words(m.Content)...), "<end>", "\n")
	}

	return append(out, "<start>", "assistant", "\n")
}

// longTemplate ends each turn with several tokens.
func longTemplate(messages []chatMessage) []string {
	var out []string
	for _, m := range messages {
		out = append(append(append(out, "<open>", m.Role, "<sep>"), words(m.Content)...), "<close>", "message", "<sep>", "<end>")
	}

	return append(out, "<open>", "assistant", "<sep>")
}

// headerTemplate has no end of a turn: a model stops with the header of the next one.
func headerTemplate(messages []chatMessage) []string {
	out := []string{"<begin>"}
	for _, m := range messages {
		out = append(append(out, "<"+m.Role+">"), words(m.Content)...)
	}

	return append(out, "<assistant>")
}

// thinkingTemplate opens a thought in the reply, and shows none of the thoughts of earlier ones.
func thinkingTemplate(messages []chatMessage) []string {
	shown := slices.Clone(messages)
	for n, m := range shown {
		if _, rest, ok := strings.Cut(m.Content, "</think> "); ok {
			shown[n].Content = rest
		}
	}

	return append(plainTemplate(shown), "<think>", "\n")
}

// otherEnd ends earlier replies with another token than the one with which the model stops.
func otherEnd(messages []chatMessage) []string {
	out := plainTemplate(messages)
	for n := range out {
		if out[n] == "<end>" {
			out[n] = "<past>"
		}
	}

	return out
}

// countingTemplate changes the beginning of the prompt with each message.
func countingTemplate(messages []chatMessage) []string {
	return append([]string{fmt.Sprint("<count", len(messages), ">")}, plainTemplate(messages)...)
}

// forgetfulTemplate shows no earlier reply.
func forgetfulTemplate(messages []chatMessage) []string {
	return plainTemplate(slices.DeleteFunc(slices.Clone(messages), func(m chatMessage) bool { return m.Role == "assistant" }))
}

// hidingTemplate leaves out all but the last result once there are several.
func hidingTemplate(messages []chatMessage) []string {
	shown, last := slices.Clone(messages), len(messages)-1
	for n := range shown {
		if shown[n].Role == "user" && n > 1 && n < last {
			shown[n].Content = "…"
		}
	}

	return plainTemplate(shown)
}

// engine is an endpoint with a template. It replies with the tokens of a script.
type engine struct {
	agent.Model

	tokenizing sync.Mutex
	template   template
	replies    [][]string
	// tokens that end a reply
	ends []string

	// the ids that it changes in prompts
	prefix []int32

	// of all tokens
	vocabulary []string

	// sent token prompts, what was sampled for each, and the fallbacks of calls by messages
	prompts   [][]int32
	sampled   [][]int32
	fallbacks []string

	// the longest conversation that was tokenised
	whole []chatMessage
}

func (e *engine) ids(tokens []string) []int32 {
	list := make([]int32, len(tokens))
	for n, token := range tokens {
		at := slices.Index(e.vocabulary, token)
		if at < 0 {
			at, e.vocabulary = len(e.vocabulary), append(e.vocabulary, token)
		}

		list[n] = int32(at)
	}

	return list
}

func (e *engine) Tokenize(_ context.Context, messages []json.RawMessage) (gatewayapi.Tokens, error) {
	e.tokenizing.Lock()
	defer e.tokenizing.Unlock()

	list := make([]chatMessage, len(messages))
	for n, raw := range messages {
		if err := json.Unmarshal(raw, &list[n]); err != nil {
			return gatewayapi.Tokens{}, err
		}
	}

	if len(list) > len(e.whole) {
		e.whole = list
	}

	tokens := e.template(list)
	if tokens == nil {
		return gatewayapi.Tokens{}, fault.New(fault.Invalid, "the template refuses the messages")
	}

	return gatewayapi.Tokens{IDs: e.ids(tokens)}, nil
}

func (e *engine) Call(_ context.Context, _, _ string, body []byte) (gatewayapi.Reply, error) {
	var request struct{ Prompt []int32 }
	if err := json.Unmarshal(body, &request); err != nil {
		return gatewayapi.Reply{}, err
	}

	e.prompts = append(e.prompts, request.Prompt)
	sampled, text := e.reply()
	e.sampled = append(e.sampled, e.ids(sampled))

	finish := "stop"
	if !strings.HasPrefix(sampled[len(sampled)-1], "<") {
		finish = "length"
	}

	answer, err := json.Marshal(map[string]any{
		"prompt_token_ids": append(slices.Clone(e.prefix), request.Prompt...),
		"choices":          []any{map[string]any{"text": text, "finish_reason": finish, "token_ids": e.ids(sampled)}},
	})

	return gatewayapi.Reply{Body: answer}, err
}

func (e *engine) CallByMessages(_ context.Context, _ string, _ []byte, why string) (gatewayapi.Reply, error) {
	e.fallbacks = append(e.fallbacks, why)
	_, text := e.reply()

	answer, err := json.Marshal(map[string]any{
		"choices": []any{map[string]any{"message": map[string]any{"content": text}, "finish_reason": "stop"}},
	})

	return gatewayapi.Reply{Body: answer}, err
}

// reply takes the next reply, and returns its text without special tokens at its end.
func (e *engine) reply() (sampled []string, text string) {
	sampled, e.replies = e.replies[0], e.replies[1:]

	for n, token := range sampled {
		if slices.Contains(e.ends, token) {
			return sampled, strings.Join(sampled[:n], "")
		}
	}

	return sampled, strings.Join(sampled, "")
}

func (*engine) Probe(context.Context) error { return nil }

func (*engine) Status(context.Context) (gatewayapi.RouteStatus, error) {
	return gatewayapi.RouteStatus{}, nil
}

// A prompt of ids is what the template makes of the conversation, except that sampled tokens stay as they
// are, whatever ends a turn of the template. Where that is not known, the agent continues by messages, and
// the turn says why.
func TestContinuationWithTemplates(t *testing.T) {
	t.Parallel()

	call := `<tool_call>{"name":"terminal","arguments":{"command":"%s"}}</tool_call>`
	// sampled otherwise than the template splits it
	act := func(command string, end ...string) []string {
		text := fmt.Sprintf(call, command)
		return append([]string{text[:7], text[7:]}, end...)
	}
	long := []string{"<close>", "message", "<sep>", "<end>"}

	for name, c := range map[string]struct {
		template template
		replies  [][]string
		prefix   []int32

		// the word of the reason, and the prompts of ids before it
		fallback string
		byIDs    int
	}{
		"one token":      {plainTemplate, [][]string{act("a", "<end>"), act("b", "<end>"), {"Done.", "<end>"}}, nil, "", 3},
		"several tokens": {longTemplate, [][]string{act("a", long...), act("b", long...), append([]string{"Done."}, long...)}, nil, "", 3},
		"next header":    {headerTemplate, [][]string{act("a", "<user>"), act("b", "<user>"), {"Done.", "<user>"}}, nil, "", 3},
		"thoughts": {thinkingTemplate, [][]string{
			append([]string{"hm ", "</think> "}, act("a", "<end>")...), append([]string{"</think> "}, act("b", "<end>")...),
			{"</think> ", "Done.", "<end>"},
		}, nil, "", 3},
		"cut off":          {plainTemplate, [][]string{{"I ", "will "}, {"Done.", "<end>"}}, nil, "", 1},
		"cut off, several": {longTemplate, [][]string{act("a"), append([]string{"Done."}, long...)}, nil, "", 2},
		"cut off in a thought": {thinkingTemplate, [][]string{
			append([]string{"hm ", "</think> "}, act("a", "<end>")...), append([]string{"so "}, act("b")...),
			{"</think> ", "Done.", "<end>"},
		}, nil, "truncated", 2},
		"cut off after a thought": {thinkingTemplate, [][]string{
			append([]string{"hm ", "</think> "}, act("a")...), {"</think> ", "Done.", "<end>"},
		}, nil, "", 2},
		"cut off in a thought of its own": {plainTemplate, [][]string{
			append([]string{"<think> "}, act("a")...), {"Done.", "<end>"},
		}, nil, "truncated", 1},
		"another end":       {otherEnd, [][]string{act("a", "<end>"), act("b", "<end>"), {"Done.", "<end>"}}, nil, "stop_not_found", 1},
		"changed beginning": {countingTemplate, [][]string{act("a", "<end>"), {"Done.", "<end>"}}, nil, "audit", 1},
		"hidden results":    {hidingTemplate, [][]string{act("a", "<end>"), act("b", "<end>"), {"Done.", "<end>"}}, nil, "audit", 2},
		"no earlier reply":  {forgetfulTemplate, [][]string{act("a", "<end>"), {"Done.", "<end>"}}, nil, "no_common_end", 1},
		"changed ids":       {plainTemplate, [][]string{act("a", "<end>"), {"Done.", "<end>"}}, []int32{99}, "ids_ignored", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			replies := len(c.replies)
			e := &engine{
				template: c.template, replies: c.replies, prefix: c.prefix, ends: []string{"<close>", "<end>", "<user>"},
			}
			j := job(&rollout.React{Continuation: rollout.ContinueAuto, SystemPrompt: "s"})
			r, err := react.Agent{}.Open(t.Context(), agent.Env{
				Sandbox: &fakeSandbox{marks: map[string]wire.Status{}}, Model: e, Tools: &tools{},
			}, j)
			require.NoError(t, err)

			defer r.Close()

			require.True(t, await(t, r).Answered())
			require.Len(t, e.prompts, c.byIDs)

			if c.fallback == "" {
				require.Empty(t, e.fallbacks)
			} else {
				require.Len(t, e.fallbacks, replies-c.byIDs)
			}

			for _, why := range e.fallbacks {
				require.Regexp(t, "^"+c.fallback+": ", why)
			}

			e.requireFaithful(t)
		})
	}
}

// requireFaithful checks the sent prompts against what the template makes of the whole conversation.
func (e *engine) requireFaithful(t *testing.T) {
	t.Helper()

	for n, prompt := range e.prompts {
		tokens := make([]string, len(prompt))
		for i, id := range prompt {
			tokens[i] = e.vocabulary[id]
		}

		for i := 1; i < len(tokens); i++ {
			require.False(t, strings.HasPrefix(tokens[i], "<end") && tokens[i] == tokens[i-1], "prompt %d: %q", n, tokens)
			require.False(t, tokens[i] == "<close>" && i > 3 && tokens[i-4] == "<close>", "prompt %d: %q", n, tokens)
			require.False(t, tokens[i] == "<user>" && tokens[i-1] == "<user>", "prompt %d: %q", n, tokens)
		}
	}
}
