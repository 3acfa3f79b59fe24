package scripted

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// offered is a tool that a request offers, in the form of any of the APIs.
type offered struct {
	Name       string `json:"name"`
	Parameters schema `json:"parameters"`
	Input      schema `json:"input_schema"`
	JSONSchema schema `json:"parametersJsonSchema"`
	Function   struct {
		Name       string `json:"name"`
		Parameters schema `json:"parameters"`
	} `json:"function"`
}

type schema struct {
	Properties map[string]struct {
		Type any `json:"type"`
	} `json:"properties"`
	Required []string `json:"required"`
}

// adapt rewrites the tool calls of a turn for the tools that the request offers. Scripts name OpenCode's
// tools. A call of a tool that the agent does not have becomes a command in the agent's shell.
func (r *request) adapt(t Turn) (Turn, bool) {
	if len(r.Tools) == 0 || !slices.ContainsFunc(t.ToolCalls, r.lacks) {
		return t, false
	}

	var tools []offered
	if json.Unmarshal(r.Tools, &tools) != nil {
		return t, false
	}

	calls := slices.Clone(t.ToolCalls)
	for i, c := range calls {
		if command, ok := shellCommand(c); ok && r.lacks(c) {
			calls[i] = inShell(tools, command, c)
		}
	}

	t.ToolCalls = calls

	return t, true
}

// lacks reports whether the request offers no tool with the call's name and arguments. It searches the bytes
// without decoding them, since it runs for every call.
func (r *request) lacks(c ToolCall) bool {
	name := appendString(nil, c.Name)
	named := bytes.Contains(r.Tools, append([]byte(`"name":`), name...)) ||
		bytes.Contains(r.Tools, append([]byte(`"name": `), name...))

	args, _ := c.Arguments.(map[string]any)
	for key := range args {
		named = named && bytes.Contains(r.Tools, appendString(nil, key))
	}

	return !named
}

// shellCommand is the bash command that does what a call of one of OpenCode's tools does.
func shellCommand(c ToolCall) (string, bool) {
	args, _ := c.Arguments.(map[string]any)
	arg := func(name string) string { text, _ := args[name].(string); return text }
	path := quoted(arg("filePath"))

	switch c.Name {
	case "bash":
		return arg("command"), true
	case "read":
		return "cat " + path, true
	case "write":
		return fmt.Sprintf("cat > %s <<'END_OF_FILE'\n%s\nEND_OF_FILE",
			path, strings.TrimSuffix(arg("content"), "\n")), true
	case "edit":
		return fmt.Sprintf(
			"python3 -c 'import sys; path, old, new = sys.argv[1:]; text = open(path).read(); assert text.count(old) == 1; "+
				`open(path, "w").write(text.replace(old, new))' %s %s %s`,
			path,
			quoted(arg("oldString")),
			quoted(arg("newString")),
		), true
	}

	return "", false
}

// quoted is a word of the shell.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// inShell calls the first tool that takes a command. Its other required arguments get a default value of their type.
func inShell(tools []offered, command string, original ToolCall) ToolCall {
	for _, tool := range tools {
		name, s := tool.Name, tool.Parameters
		if tool.Function.Name != "" {
			name, s = tool.Function.Name, tool.Function.Parameters
		}

		for _, other := range []schema{tool.Input, tool.JSONSchema} {
			if len(other.Properties) > 0 {
				s = other
			}
		}

		for _, parameter := range []string{"command", "cmd"} {
			if p, ok := s.Properties[parameter]; ok && p.Type == "string" {
				return ToolCall{Name: name, Arguments: s.arguments(parameter, command)}
			}
		}
	}

	return original
}

func (s schema) arguments(parameter, command string) map[string]any {
	args := map[string]any{parameter: command}
	for _, name := range s.Required {
		if name == parameter {
			continue
		}

		switch s.Properties[name].Type {
		case "boolean":
			args[name] = false
		case "number", "integer":
			args[name] = 0
		default:
			args[name] = "Works on the task"
		}
	}

	return args
}
