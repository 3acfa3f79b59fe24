package responses

import (
	"encoding/json"
	"slices"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/chat"
	"github.com/rolloutd/rolloutd/internal/rawjson"
)

type tool struct {
	Type        string          `json:"type"`
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
	Format      struct {
		Syntax     string `json:"syntax"`
		Definition string `json:"definition"`
	} `json:"format"`
}

// customSchema is the schema of a tool whose input is a text: chat completions have only functions.
const customSchema = `{"type":"object","properties":{"input":{"type":"string"}},"required":["input"],"additionalProperties":false}`

// tools declares functions, and declares tools whose input is a text as functions of one parameter; custom
// are the names of the latter. Other tools are run by OpenAI's servers.
func (in *request) tools(out *chat.Request) (custom, dropped []string) {
	for _, t := range in.Tools {
		switch t.Type {
		case "function":
			out.Tools = append(out.Tools, chat.NewTool(t.Name, t.Description, t.Parameters))
		case "custom":
			custom = append(custom, t.Name)
			out.Tools = append(out.Tools, chat.NewTool(t.Name, t.described(), json.RawMessage(customSchema)))
		default:
			dropped = append(dropped, t.Type)
		}
	}

	return custom, dropped
}

// described returns the description, with the grammar of the tool's input.
func (t *tool) described() string {
	if t.Format.Definition == "" {
		return t.Description
	}

	return t.Description + "\n\nThe input follows this grammar (" + t.Format.Syntax + "):\n" + t.Format.Definition
}

func (in *request) choose(out *chat.Request) error {
	var choice struct {
		Type string `json:"type"`
		Name string `json:"name"`
	}

	word := rawjson.TextOf(in.ToolChoice)
	switch {
	case len(in.ToolChoice) == 0, string(in.ToolChoice) == "null":
		return nil
	case slices.Contains([]string{"auto", "none", "required"}, word):
		out.ToolChoice = word
		return nil
	case json.Unmarshal(in.ToolChoice, &choice) == nil && (choice.Type == "function" || choice.Type == "custom"):
		out.ToolChoice = chat.Choose(choice.Name)
		return nil
	default:
		return fault.Field("tool_choice", "must be auto, none, required or a tool of the request")
	}
}

// textArguments returns the arguments of a call with a text as input.
func textArguments(input string) string {
	return string(chat.Encode(map[string]string{"input": input}))
}

// inputOf returns the text input of a call; arguments of another form are the text itself.
func inputOf(arguments string) string {
	var in struct {
		Input *string `json:"input"`
	}
	if json.Unmarshal([]byte(arguments), &in) != nil || in.Input == nil {
		return arguments
	}

	return *in.Input
}
