package markup

import "strings"

// form is how a call is written: open, its content, close. The content is a JSON object with name and arguments, or a
// name, between, and the JSON object of the arguments.
type form struct {
	name          string
	open, between string

	// "": the call ends with the text
	close string

	// around all calls of a reply; "": nothing
	begin, end string

	// its calls are not JSON: they are only noticed
	unread bool
}

// forms has the names of vLLM's parsers (vllm/tool_parsers). SGLang's detectors (sglang/srt/function_call) read the
// same forms. A form whose calls stand within the marks of another one is before it.
func forms() []form {
	return []form{
		{name: "qwen3_coder", open: "<function=", unread: true},
		{name: "glm45", open: "<arg_key>", unread: true},
		{name: "minimax_m2", open: "<minimax:tool_call>", unread: true},
		{name: "deepseek_v32", open: "<｜DSML｜", unread: true},
		{name: "granite", open: "<|tool_call|>", unread: true},
		{name: "gemma4", open: "<|tool_call>", unread: true},
		{name: "seed_oss", open: "<seed:tool_call>", unread: true},
		{name: "longcat", open: "<longcat_tool_call>", unread: true},
		{name: "hunyuan_a13b", open: "<tool_calls>", unread: true},
		{name: "openai", open: "<|channel|>commentary to=", unread: true},
		{name: "hermes", open: "<tool_call>", close: "</tool_call>"},
		{
			name: "deepseek_v31", open: "<｜tool▁call▁begin｜>", between: "<｜tool▁sep｜>", close: "<｜tool▁call▁end｜>",
			begin: "<｜tool▁calls▁begin｜>", end: "<｜tool▁calls▁end｜>",
		},
		{
			name: "kimi_k2", open: "<|tool_call_begin|>", between: "<|tool_call_argument_begin|>", close: "<|tool_call_end|>",
			begin: "<|tool_calls_section_begin|>", end: "<|tool_calls_section_end|>",
		},
		{name: "mistral", open: "[TOOL_CALLS]", between: "[ARGS]"},
		{name: "llama3_json", open: "<|python_tag|>"},
	}
}

// In returns the name of the first form whose mark is in a text; "": there is none. Any text can have one: a model may
// write about calls.
func In(text string) string {
	if all := formsIn(text); len(all) > 0 {
		return all[0].name
	}

	return ""
}

func formsIn(text string) []form {
	var all []form

	for _, f := range forms() {
		if strings.Contains(text, f.open) {
			all = append(all, f)
		}
	}

	return all
}
