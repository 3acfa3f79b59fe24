package transcript

import (
	"encoding/json"
	"strings"

	"github.com/rolloutd/rolloutd/internal/rawjson"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/trajectory/formats"
)

// message has the members of a message, or of an item of the Responses API, that carry text.
type message struct {
	Role       string
	Type       string
	Content    json.RawMessage
	ToolCallID string `json:"tool_call_id"`
	ToolCalls  []struct {
		ID       string
		Function formats.ToolCall
	} `json:"tool_calls"`
	Thoughts  json.RawMessage `json:"reasoning_content"`
	Reasoning json.RawMessage

	// id of the call of an item
	CallID    string `json:"call_id"`
	Name      string
	Arguments json.RawMessage
	Output    json.RawMessage
	Summary   json.RawMessage
}

// block is an element of a list of contents.
type block struct {
	Type     string
	Text     string
	Thinking string

	// id of a tool call
	ID    string
	Name  string
	Input json.RawMessage

	// id of the call of a tool's result
	ToolUseID string `json:"tool_use_id"`
	Content   json.RawMessage
}

// fromAssistant reports whether the message is one that a model wrote.
func (m *message) fromAssistant() bool {
	return m.Role == "assistant" || m.Type == "function_call" || m.Type == "reasoning"
}

// partsOf returns the parts of a message of any model API.
func partsOf(raw json.RawMessage) []Part {
	var m message
	if json.Unmarshal(raw, &m) != nil {
		// members of unexpected types: show the message as it is
		return []Part{{Kind: User, Text: string(raw)}}
	}

	switch {
	case m.Role == "tool":
		return []Part{{Kind: ToolResult, CallID: m.ToolCallID, Text: formats.ContentText(m.Content)}}
	case m.Type == "function_call_output":
		return []Part{{Kind: ToolResult, CallID: m.CallID, Text: formats.ContentText(m.Output)}}
	case m.Role == "system" || m.Role == "developer":
		return []Part{{Kind: System, Text: formats.ContentText(m.Content)}}
	case m.fromAssistant():
		return m.written(Assistant)
	default:
		return blocksOf(m.Content, User)
	}
}

// written returns the parts of a message that a model wrote: thoughts, texts, tool calls.
func (m *message) written(kind PartKind) []Part {
	var parts []Part

	for _, raw := range []json.RawMessage{m.Thoughts, m.Reasoning, m.Summary} {
		if thoughts := formats.ContentText(raw); thoughts != "" {
			parts = append(parts, Part{Kind: Thinking, Text: thoughts})
			break
		}
	}

	if m.Type == "reasoning" {
		return parts
	}

	parts = append(parts, blocksOf(m.Content, kind)...)

	for _, c := range m.ToolCalls {
		parts = append(parts, Part{Kind: ToolCall, CallID: c.ID, Name: c.Function.Name, Text: argumentsText(c.Function.Arguments)})
	}

	if m.Type == "function_call" {
		parts = append(parts, Part{Kind: ToolCall, CallID: m.CallID, Name: m.Name, Text: argumentsText(m.Arguments)})
	}

	return parts
}

// blocksOf returns the parts of a content, which is a text or a list of blocks.
func blocksOf(content json.RawMessage, kind PartKind) []Part {
	var blocks []block
	if json.Unmarshal(content, &blocks) != nil {
		if text := formats.ContentText(content); text != "" {
			return []Part{{Kind: kind, Text: text}}
		}

		return nil
	}

	var parts []Part

	for _, b := range blocks {
		switch {
		case b.Type == "tool_result":
			parts = append(parts, Part{Kind: ToolResult, CallID: b.ToolUseID, Text: formats.ContentText(b.Content)})
		case b.Type == "tool_use":
			parts = append(parts, Part{Kind: ToolCall, CallID: b.ID, Name: b.Name, Text: argumentsText(b.Input)})
		case b.Type == "thinking":
			parts = append(parts, Part{Kind: Thinking, Text: b.Thinking})
		case b.Text != "":
			parts = append(parts, Part{Kind: kind, Text: b.Text})
		case b.Type != "text":
			parts = append(parts, Part{Kind: kind, Text: "[" + b.Type + "]"})
		}
	}

	return parts
}

// argumentsText returns the arguments of a call as a JSON text. APIs give an object, or a string with the JSON of one.
func argumentsText(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}

	return string(raw)
}

// replyParts returns the parts of a turn's reply, and the endpoint's error.
func replyParts(t *rollout.Turn) []Part {
	var parts []Part

	if items := responseItems(t.Response); items != nil {
		for _, raw := range items {
			var m message
			if json.Unmarshal(raw, &m) == nil {
				parts = append(parts, m.written(Text)...)
			}
		}
	} else {
		reply := formats.ReplyOf(t)

		var m message
		if json.Unmarshal(reply.Message, &m) == nil {
			parts = m.written(Text)
		}
	}

	if failure := strings.TrimSpace(string(t.UpstreamError)); failure != "" && failure != "null" {
		parts = append(parts, Part{Kind: Failure, Text: failure})
	}

	return parts
}

// responseItems returns the output of a response of the Responses API; nil: the reply is of another API.
func responseItems(response json.RawMessage) []json.RawMessage {
	var items []json.RawMessage
	if json.Unmarshal(rawjson.MemberOf(response, "output"), &items) != nil {
		return nil
	}

	return items
}
