package react

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/rolloutd/rolloutd/internal/tool"
)

// message is a message of the conversation as chat completions have it.
type message struct {
	Role       string          `json:"role"`
	Content    string          `json:"content"`
	Reasoning  string          `json:"reasoning_content,omitempty"`
	ToolCalls  json.RawMessage `json:"tool_calls,omitempty"`
	ToolCallID string          `json:"tool_call_id,omitempty"`
}

// answer is a reply of the model.
type answer struct {
	Text      string
	Reasoning string
	Calls     []call // of native tool calls
	Finish    string
	Ended     string // why there are no further replies; "": this is one
	Usage     usage
}

type usage struct {
	Prompt     int64 `json:"prompt_tokens"`
	Completion int64 `json:"completion_tokens"`
}

// conversation keeps what was said and asks the model to go on.
type conversation interface {
	// ask appends the messages and returns the reply to them; id names the call. Its errors are those of agent.Model.
	ask(ctx context.Context, id string, add []message) (*answer, error)
}

// nativeTool is a definition as the model API takes it.
type nativeTool struct {
	Type     string          `json:"type"`
	Function tool.Definition `json:"function"`
}

func nativeTools(tools []tool.Definition) []nativeTool {
	list := make([]nativeTool, 0, len(tools))
	for _, d := range tools {
		list = append(list, nativeTool{"function", d})
	}
	return list
}

// marshal keeps "<", ">" and "&" as they are: people read the trace.
func marshal(v any) (json.RawMessage, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	// A conversation is kept while its model thinks: a copy of its size leaves out what the buffer has grown to.
	return bytes.Clone(bytes.TrimRight(out.Bytes(), "\n")), nil
}
