package messages

import (
	"encoding/json"

	"github.com/rolloutd/rolloutd/internal/gateway/dialect/chat"
)

// signature replaces the signature of Anthropic's models on their thinking: clients return a block only if it has one.
const signature = "rolloutd"

type answer struct {
	ID           string  `json:"id"`
	Type         string  `json:"type"`
	Role         string  `json:"role"`
	Model        string  `json:"model"`
	Content      []any   `json:"content"`
	StopReason   string  `json:"stop_reason"`
	StopSequence *string `json:"stop_sequence"`
	Usage        usage   `json:"usage"`
}

type usage struct {
	Input      int64 `json:"input_tokens"`
	CacheWrite int64 `json:"cache_creation_input_tokens"`
	CacheRead  int64 `json:"cache_read_input_tokens"`
	Output     int64 `json:"output_tokens"`
}

type thinkingBlock struct {
	Type      string `json:"type"`
	Thinking  string `json:"thinking"`
	Signature string `json:"signature"`
}

type textBlock struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

type toolBlock struct {
	Type  string          `json:"type"`
	ID    string          `json:"id"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
}

// reply returns a completion as a message of the model that the agent named.
func reply(c chat.Completion, model string) []byte {
	a := answer{
		ID: "msg_" + c.Short(), Type: "message", Role: "assistant", Model: model, Content: []any{},
		Usage: usage{Input: c.Usage.Prompt - c.Usage.Cached, CacheRead: c.Usage.Cached, Output: c.Usage.Completion},
	}
	if c.Reasoning != "" {
		a.Content = append(a.Content, thinkingBlock{"thinking", c.Reasoning, signature})
	}

	if text := c.Text + c.Refusal; text != "" {
		a.Content = append(a.Content, textBlock{"text", text})
	}

	for _, call := range c.Calls {
		a.Content = append(a.Content, toolBlock{
			"tool_use", call.ID, call.Function.Name, inputOf(call.Function.Arguments),
		})
	}

	a.stopped(c)

	return chat.Encode(a)
}

// inputOf returns the input of a tool, which the API requires to be an object. Other text is wrapped in a
// string as the model wrote it: the tool refuses it, and the next request repeats it.
func inputOf(arguments string) json.RawMessage {
	if arguments == "" {
		return json.RawMessage("{}")
	}

	if input, ok := chat.Arguments(arguments); ok {
		return input
	}

	return chat.Encode(arguments)
}

func (a *answer) stopped(c chat.Completion) {
	switch {
	case c.Finish == "length":
		a.StopReason = "max_tokens"
	case c.Finish == "content_filter":
		a.StopReason = "refusal"
	case len(c.Calls) > 0:
		a.StopReason = "tool_use"
	case c.Stop != "":
		a.StopReason, a.StopSequence = "stop_sequence", &c.Stop
	default:
		a.StopReason = "end_turn"
	}
}
