package react

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/rolloutd/rolloutd/internal/rawjson"
	"github.com/rolloutd/rolloutd/internal/tool"
)

// toolsMark is the placeholder for the list of tools in the system prompt.
const toolsMark = "{tools}"

// systemText is the system prompt of the format "hermes".
const systemText = `You are a function calling AI model. You solve the user's task by calling tools. The signatures of the tools are within <tools></tools> tags:
<tools>` + toolsMark + `</tools>

To call tools, answer with exactly one <think></think> block, followed by one or more <tool_call></tool_call> blocks and nothing else. Each <tool_call> block holds one JSON object with the keys "name" and "arguments", in double quotes:
<think>
why this call is the next step
</think>
<tool_call>
{"name": "tool name", "arguments": {"argument name": "value"}}
</tool_call>

The result of each call comes in the next message within <tool_response></tool_response> tags. Never write <tool_response> yourself: wait for it, and go on from what it says.
When the task is solved, give the final answer. A message without a <tool_call> block is the final answer and ends the work.
`

// examplesText has examples with the tool "terminal". It is left out if the policy does not have that tool.
const examplesText = `
Examples:

1. The user asks which files are in the directory.
<think>
I list the directory.
</think>
<tool_call>
{"name": "terminal", "arguments": {"command": "ls -la"}}
</tool_call>

2. The user asks for a file with a line in it. I write it and look at it, in two calls.
<think>
I write the file, then print it to check.
</think>
<tool_call>
{"name": "terminal", "arguments": {"command": "printf 'hello\n' > hello.txt"}}
</tool_call>
<tool_call>
{"name": "terminal", "arguments": {"command": "cat hello.txt"}}
</tool_call>

3. The last <tool_response> shows that the file is right. I answer without a call.
The file hello.txt has the line.
`

// systemPrompt is the default system prompt of the format "hermes" with the tools.
func systemPrompt(tools []tool.Definition) string {
	text := strings.Replace(systemText, toolsMark, toolList(tools), 1)
	if slices.ContainsFunc(tools, func(d tool.Definition) bool { return d.Name == "terminal" }) {
		text += examplesText
	}

	return text
}

// toolList lists the tools as one line of JSON in Python's format, in the given order.
func toolList(tools []tool.Definition) string {
	var out strings.Builder
	out.WriteByte('[')

	for i, d := range tools {
		if i > 0 {
			out.WriteString(", ")
		}

		out.WriteString(
			`{"name": ` + quoted(d.Name, false) + `, "description": ` + quoted(
				d.Description,
				false,
			) + `, "parameters": `,
		)
		out.Write(spaced(parameters(d.Parameters), false))
		out.WriteString(`, "required": null}`)
	}

	out.WriteByte(']')

	return out.String()
}

// parameters moves the members type, properties and required of a schema to its front, in this order.
func parameters(schema json.RawMessage) []byte {
	o, err := rawjson.ParseObject(schema)
	if err != nil {
		return []byte(`{"type":"object","properties":{},"required":[]}`)
	}

	out := []byte(
		`{"type":` + string(
			o.Or("type", `"object"`),
		) + `,"properties":` + string(o.Or("properties", "{}")) + `,"required":` + string(
			o.Or("required", "[]"),
		),
	)
	for _, m := range o.Filter(func(key string) bool { return key == "type" || key == "properties" || key == "required" }) {
		out = append(append(append(out, ','), rawjson.Quote(m.Key)...), ':')
		out = append(out, m.Value...)
	}

	return append(out, '}')
}
