package scripted

import (
	"encoding/json"
	"fmt"
)

// messagesRequest has the fields of a request of the Anthropic Messages API that the server reads.
type messagesRequest struct {
	Model    string          `json:"model"`
	System   content         `json:"system"`
	Messages []turnMessage   `json:"messages"`
	Tools    json.RawMessage `json:"tools"`
	Stream   bool            `json:"stream"`
}

type turnMessage struct {
	Role string `json:"role"`

	// a string, or a list of blocks
	Content json.RawMessage `json:"content"`
}

type block struct {
	Type     string          `json:"type"`
	Text     string          `json:"text"`
	Thinking string          `json:"thinking"`
	Name     string          `json:"name"`
	Input    json.RawMessage `json:"input"`
	ToolUse  string          `json:"tool_use_id"`
	Content  content         `json:"content"`
}

func readMessages(body []byte) (request, error) {
	var in messagesRequest
	if err := json.Unmarshal(body, &in); err != nil {
		return request{}, err
	}

	r := request{Model: in.Model, Tools: in.Tools, Stream: in.Stream}
	if in.System != "" {
		r.Messages = append(r.Messages, message{Role: "system", Content: in.System})
	}

	for i, m := range in.Messages {
		if err := r.addTurn(m); err != nil {
			return request{}, fmt.Errorf("messages[%d]: %w", i, err)
		}
	}

	return r, nil
}

// addTurn appends a message. A user message with tool results is not an instruction, even if it has text, too.
func (r *request) addTurn(in turnMessage) error {
	var text string
	if json.Unmarshal(in.Content, &text) == nil {
		r.Messages = append(r.Messages, message{Role: in.Role, Content: content(text)})
		return nil
	}

	var blocks []block
	if err := json.Unmarshal(in.Content, &blocks); err != nil {
		return err
	}

	m, results := message{Role: in.Role}, []message(nil)

	for _, b := range blocks {
		switch b.Type {
		case "text":
			m.Content += content(b.Text)
		case "thinking":
			m.ReasoningContent += b.Thinking
		case "tool_use":
			m.ToolCalls = append(m.ToolCalls, newWireToolCall(b.Name, string(b.Input)))
		case "tool_result":
			results = append(results, message{Role: "tool", Content: b.Content, ToolCallID: b.ToolUse})
		}
	}

	r.Messages = append(r.Messages, results...)
	if len(results) > 0 {
		m.Role = "tool"
	}

	if len(results) == 0 || m.Content != "" {
		r.Messages = append(r.Messages, m)
	}

	return nil
}

// wholeMessage is the reply as an object of the Messages API.
func (c *call) wholeMessage() map[string]any {
	return map[string]any{
		"id": "msg_" + c.id, "type": "message", "role": "assistant", "model": c.req.Model, "content": c.blocks(),
		"stop_reason": stopReason(c.scene.reply.finish), "stop_sequence": nil,
		"usage": map[string]int{"input_tokens": len(c.prompt), "output_tokens": c.scene.reply.tokens},
	}
}

func stopReason(finish string) string {
	switch finish {
	case "tool_calls":
		return "tool_use"
	case "length":
		return "max_tokens"
	case "content_filter":
		return "refusal"
	default:
		return "end_turn"
	}
}

func (c *call) blocks() []map[string]any {
	rep, blocks := c.scene.reply, []map[string]any{}
	if rep.reasoning != "" {
		blocks = append(blocks, map[string]any{
			"type":      "thinking",
			"thinking":  rep.reasoning,
			"signature": "c2NyaXB0ZWQ=",
		})
	}

	if rep.text != "" {
		blocks = append(blocks, map[string]any{"type": "text", "text": rep.text})
	}

	for i, k := range rep.calls {
		input := json.RawMessage(k.arguments)
		if !json.Valid(input) {
			input = json.RawMessage("{}")
		}

		blocks = append(blocks, map[string]any{"type": "tool_use", "id": c.callID(i), "name": k.name, "input": input})
	}

	return blocks
}

// messageEvents is the reply as a stream: each block whole in one piece.
func (c *call) messageEvents() []event {
	whole := c.wholeMessage()

	begun := map[string]any{}
	for key, value := range whole {
		begun[key] = value
	}

	begun["content"], begun["stop_reason"] = []any{}, nil
	begun["usage"] = map[string]int{"input_tokens": len(c.prompt), "output_tokens": 0}
	events := []event{{"message_start", map[string]any{"message": begun}}}
	calls := 0

	for i, b := range c.blocks() {
		empty, delta := map[string]any{"type": b["type"]}, map[string]any{}
		switch b["type"] {
		case "thinking":
			empty["thinking"], empty["signature"] = "", b["signature"]
			delta["type"], delta["thinking"] = "thinking_delta", b["thinking"]
		case "text":
			empty["text"] = ""
			delta["type"], delta["text"] = "text_delta", b["text"]
		case "tool_use":
			empty["id"], empty["name"], empty["input"] = b["id"], b["name"], map[string]any{}
			delta["type"], delta["partial_json"] = "input_json_delta", c.scene.reply.calls[calls].arguments
			calls++
		}

		events = append(events,
			event{"content_block_start", map[string]any{"index": i, "content_block": empty}},
			event{"content_block_delta", map[string]any{"index": i, "delta": delta}},
			event{"content_block_stop", map[string]any{"index": i}})
	}

	events = append(events,
		event{"message_delta", map[string]any{
			"delta": map[string]any{"stop_reason": whole["stop_reason"], "stop_sequence": nil},
			"usage": map[string]int{"output_tokens": c.scene.reply.tokens},
		}},
		event{"message_stop", map[string]any{}})
	for i := range events {
		events[i].data["type"] = events[i].kind
	}

	return events
}
