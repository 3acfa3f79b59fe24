package react_test

import (
	"bufio"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/agent"
	"github.com/rolloutd/rolloutd/internal/agent/react"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
	"github.com/rolloutd/rolloutd/internal/testkit/pyclient"
)

// renderer renders published chat templates.
type renderer struct {
	in    *json.Encoder
	out   *bufio.Scanner
	names []string
}

func newRenderer(t *testing.T) *renderer {
	t.Helper()

	cmd := pyclient.Interpreter(t, pyclient.Templates()).Command(t, "testdata/templates.py")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = in.Close()
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait()
	})

	r := &renderer{in: json.NewEncoder(in), out: bufio.NewScanner(out)}
	r.out.Buffer(nil, 1<<20)
	require.True(t, r.out.Scan())
	require.NoError(t, json.Unmarshal(r.out.Bytes(), &r.names))

	return r
}

// of is one of the templates; its prompt is nil where it refuses the messages.
func (r *renderer) of(t *testing.T, name string) template {
	return func(messages []chatMessage) []string {
		list := make([]map[string]string, len(messages))
		for n, m := range messages {
			list[n] = map[string]string{"role": m.Role, "content": m.Content}
		}

		require.NoError(t, r.in.Encode(map[string]any{"template": name, "messages": list}))
		require.True(t, r.out.Scan())

		var answer struct{ Tokens []string }
		require.NoError(t, json.Unmarshal(r.out.Bytes(), &answer))

		return answer.Tokens
	}
}

// endOf returns the tokens with which a model of the template ends a reply: those up to the first special one.
func endOf(template template) []string {
	tokens := template([]chatMessage{{"user", "go"}, {"assistant", "REPLY"}, {"user", "next"}})

	at := slices.Index(tokens, "REPLY")
	if at < 0 {
		return []string{"<end>"}
	}

	return tokens[at+1 : at+2]
}

// With each published chat template, every prompt of ids ends exactly as the template ends the whole
// conversation. The few templates with which a conversation cannot continue by ids are known.
func TestContinuationWithPublishedTemplates(t *testing.T) {
	t.Parallel()

	r := newRenderer(t)
	require.Greater(t, len(r.names), 60)

	// models that end a reply otherwise than with the first token after it
	ends := map[string][]string{
		"cohere2": {"<|END_RESPONSE|>", "<|END_OF_TURN_TOKEN|>"},
		"gptoss":  {"<|return|>"},
	}
	fallbacks := map[string]string{}

	for _, name := range r.names {
		family := strings.TrimSuffix(name, "_training")

		e := &engine{template: r.of(t, name)}

		end, ok := ends[family]
		if !ok {
			end = endOf(e.template)
		}

		e.ends = end
		for _, text := range []string{call("aaa"), call("bbb"), "Done."} {
			e.replies = append(e.replies, append([]string{text[:4], text[4:]}, end...))
		}

		if word := e.converse(t); word != "" {
			fallbacks[name] = word
			continue
		}

		require.Len(t, e.prompts, 3, name)
		e.requireTemplate(t, name)
	}

	known := map[string]string{
		// refuse a system message, or a content that is a text
		"gemma": "tokenize_failed", "llava_next": "tokenize_failed",
		// show only contents that are lists
		"idefics3": "no_common_end", "smolvlm": "no_common_end",
		// ends earlier replies with another token than the last one
		"gptoss": "stop_not_found",
	}
	for name, word := range maps.Clone(known) {
		known[name+"_training"] = word
	}

	require.Equal(t, known, fallbacks)
}

func call(command string) string {
	return `<tool_call>{"name":"terminal","arguments":{"command":"` + command + `"}}</tool_call>`
}

// converse runs the agent, and returns the word of its fallback; "": it had none.
func (e *engine) converse(t *testing.T) string {
	t.Helper()

	r, err := react.Agent{}.Open(t.Context(), agent.Env{
		Sandbox: &fakeSandbox{marks: map[string]wire.Status{}}, Model: e, Tools: &tools{},
	}, job(&rollout.React{Continuation: rollout.ContinueAuto, SystemPrompt: "s"}))
	require.NoError(t, err)

	defer r.Close()

	require.True(t, await(t, r).Answered())

	if len(e.fallbacks) == 0 {
		return ""
	}

	word, _, _ := strings.Cut(e.fallbacks[0], ":")

	return word
}

// requireTemplate checks that the last prompt is the one before, what was sampled, and what the template has
// after the reply in the whole conversation.
func (e *engine) requireTemplate(t *testing.T, name string) {
	t.Helper()

	rendered := e.template(e.whole)
	n := len(e.prompts) - 1

	stop := e.vocabulary[e.sampled[n-1][len(e.sampled[n-1])-1]]
	at := slices.Index(rendered, "bbb")
	require.Positive(t, at, name)

	at += slices.Index(rendered[at:], stop) + 1
	want := slices.Concat(e.prompts[n-1], e.sampled[n-1], e.ids(rendered[at:]))
	require.Equal(t, want, e.prompts[n], name)
}
