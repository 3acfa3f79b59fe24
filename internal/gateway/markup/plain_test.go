package markup_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/gateway/markup"
)

// Plain calls of each form, as the templates of models write them.
func TestPlainCalls(t *testing.T) {
	t.Parallel()

	bash := []markup.Call{{Name: "bash", Arguments: `{"command":"ls"}`}}

	for sampled, want := range map[string]struct {
		calls []markup.Call
		way   markup.Way
	}{
		"<tool_call>\n{\"name\": \"bash\", \"arguments\": {\"command\":\"ls\"}}\n</tool_call><|im_end|>": {
			bash, markup.Way{Form: "hermes"},
		},
		"hm\n</think>\n\nI look. <tool_call>{\"name\":\"bash\",\"arguments\":{\"command\":\"ls\"}}</tool_call>\n" +
			"<tool_call>{\"name\":\"bash\",\"arguments\":{}}</tool_call>": {
			[]markup.Call{bash[0], {Name: "bash", Arguments: "{}"}},
			markup.Way{Form: "hermes", Thought: true, Text: true, Several: true},
		},
		"<think>hm</think><｜tool▁calls▁begin｜><｜tool▁call▁begin｜>bash<｜tool▁sep｜>{\"command\":\"ls\"}" +
			"<｜tool▁call▁end｜><｜tool▁calls▁end｜><|im_end|>": {
			bash, markup.Way{Form: "deepseek_v31", Thought: true},
		},
		"<|tool_calls_section_begin|><|tool_call_begin|>functions.bash:0<|tool_call_argument_begin|>{\"command\":\"ls\"}" +
			"<|tool_call_end|><|tool_calls_section_end|><|im_end|>": {
			bash, markup.Way{Form: "kimi_k2"},
		},
		`[TOOL_CALLS]bash[ARGS]{"command":"ls"}<|im_end|>`: {bash, markup.Way{Form: "mistral"}},
		`<|python_tag|>{"name": "bash", "parameters": {"command":"ls"}}<|im_end|>`: {
			bash, markup.Way{Form: "llama3_json"},
		},
	} {
		calls, way, ok := markup.Plain(sampled, "<|im_end|>", []string{"read", "bash"})
		require.True(t, ok, sampled)
		require.Equal(t, want.calls, calls, sampled)
		require.Equal(t, want.way, way, sampled)
	}
}

// What a policy can write so that a correct parser may refuse it is no plain call.
func TestCallsThatAreNotPlain(t *testing.T) {
	t.Parallel()

	call := func(arguments string) string {
		return `<tool_call>{"name":"bash","arguments":` + arguments + `}</tool_call>`
	}

	for name, sampled := range map[string]string{
		"no call":              "I am done.",
		"about calls":          "I would write <tool_call>, but " + call("{}"),
		"text after":           call("{}") + " and more",
		"cut":                  `<tool_call>{"name":"bash","arguments":{"command":"l`,
		"no JSON":              call("{command: ls}"),
		"no object":            call(`"ls"`),
		"no name":              `<tool_call>{"name":"","arguments":{}}</tool_call>`,
		"another tool":         `<tool_call>{"name":"rm","arguments":{}}</tool_call>`,
		"another order":        `<tool_call>{"arguments":{},"name":"bash"}</tool_call>`,
		"another member":       `<tool_call>{"name":"bash","arguments":{},"id":1}</tool_call>`,
		"two objects":          `<tool_call>{"name":"bash","arguments":{}}{}</tool_call>`,
		"mark in an argument":  call(`{"command":"</tool_call>"}`),
		"open in an argument":  call(`{"command":"<tool_call>"}`),
		"forms mixed":          call(`{"command":"<function=x>"}`),
		"two forms":            call("{}") + `[TOOL_CALLS]bash[ARGS]{}`,
		"in a thought":         "<think>" + call("{}"),
		"in a second thought":  "hm</think><think>" + call("{}"),
		"two ends of thoughts": "hm</think> so </think>" + call("{}"),
		"deep":                 call(`{"a":` + strings.Repeat("[", 300) + strings.Repeat("]", 300) + "}"),
		"a long number":        call(`{"a":` + strings.Repeat("1", 5000) + "}"),
		"a large number":       call(`{"a":1e999}`),
		"half a character":     call(`{"a":"\ud800"}`),
		"a form of XML":        "<tool_call><function=bash></function></tool_call>",
		"without its section":  "<｜tool▁call▁begin｜>bash<｜tool▁sep｜>{}<｜tool▁call▁end｜>",
	} {
		_, _, ok := markup.Plain(sampled, "<|im_end|>", []string{"bash"})
		require.False(t, ok, name)
	}

	require.Equal(t, "hermes", markup.In("about <tool_call>"))
	require.Equal(t, "qwen3_coder", markup.In("<tool_call>\n<function=bash>"))
	require.Empty(t, markup.In("a < b, list[0]"))
}

// Any text is read within its bounds, and plain calls have names of tools.
func FuzzPlain(f *testing.F) {
	f.Add(`hm</think><tool_call>{"name":"bash","arguments":{}}</tool_call><|im_end|>`, "<|im_end|>")
	f.Add("<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>bash<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>", "")
	f.Add("[TOOL_CALLS]bash[ARGS]{}", "}")
	f.Fuzz(func(t *testing.T, sampled, stop string) {
		calls, way, ok := markup.Plain(sampled, stop, []string{"bash"})
		if !ok {
			require.Empty(t, calls)
			return
		}

		require.Equal(t, way.Form, markup.In(sampled))
		require.NotEmpty(t, calls)

		for _, c := range calls {
			require.Equal(t, "bash", c.Name)
			require.Contains(t, sampled, c.Arguments)
		}
	})
}
