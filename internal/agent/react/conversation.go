package react

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/rolloutd/rolloutd/internal/tool"
)

// message is a message in the format of chat completions.
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

	// native tool calls
	Calls  []call
	Finish string

	// why the gateway answers no further calls; "": this is a reply
	Ended string
	Usage usage
}

type usage struct {
	Prompt     int64 `json:"prompt_tokens"`
	Completion int64 `json:"completion_tokens"`
}

// conversation keeps the messages and calls the model.
type conversation interface {
	// ask appends the messages and returns the reply. id is the id of the model call. Errors are those of agent.Model.
	sendMessages(ctx context.Context, id string, add []message) (*answer, error)
}

// nativeTool is a tool definition in the format of the model API.
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

// marshal encodes v without escaping "<", ">" and "&", because people read the trace.
func marshal(v any) (json.RawMessage, error) {
	var out bytes.Buffer

	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)

	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	// The result is kept during model calls. A copy of exact size frees the buffer's spare capacity.
	return bytes.Clone(bytes.TrimRight(out.Bytes(), "\n")), nil
}
