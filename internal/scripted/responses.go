package scripted

import (
	"encoding/json"
	"fmt"
	"slices"
)

// responsesRequest has the fields of a request of the Responses API that the server reads.
type responsesRequest struct {
	Model        string `json:"model"`
	Instructions string `json:"instructions"`

	// a string, or a list of items
	Input       json.RawMessage `json:"input"`
	Tools       json.RawMessage `json:"tools"`
	Stream      bool            `json:"stream"`
	Include     []string        `json:"include"`
	TopLogprobs int             `json:"top_logprobs"`
	Temperature *float64        `json:"temperature"`
	// ReturnMessages is vLLM's parameter that requests token ids.
	ReturnMessages bool `json:"enable_response_messages"`
}

// responsesItem is one item of the input.
type responsesItem struct {
	Type      string  `json:"type"`
	Role      string  `json:"role"`
	Content   content `json:"content"`
	Name      string  `json:"name"`
	Arguments string  `json:"arguments"`
	CallID    string  `json:"call_id"`
	Output    content `json:"output"`
}

func readResponses(body []byte) (request, error) {
	var in responsesRequest
	if err := json.Unmarshal(body, &in); err != nil {
		return request{}, err
	}

	r := request{
		Model:          in.Model,
		Tools:          in.Tools,
		Stream:         in.Stream,
		ReturnTokenIDs: in.ReturnMessages,
		Logprobs:       slices.Contains(in.Include, "message.output_text.logprobs"),
		TopLogprobs:    in.TopLogprobs,
		Temperature:    in.Temperature,
	}
	if in.Instructions != "" {
		r.Messages = append(r.Messages, message{Role: "system", Content: content(in.Instructions)})
	}

	var text string
	if json.Unmarshal(in.Input, &text) == nil {
		r.Messages = append(r.Messages, message{Role: "user", Content: content(text)})
		return r, nil
	}

	var items []responsesItem
	if err := json.Unmarshal(in.Input, &items); err != nil {
		return request{}, fmt.Errorf("input: %w", err)
	}

	for _, item := range items {
		r.addItem(item)
	}

	return r, nil
}

// addItem appends an item as a message. Items of one reply are one message.
func (r *request) addItem(item responsesItem) {
	switch {
	case item.Type == "function_call":
		m := r.reply()
		m.ToolCalls = append(m.ToolCalls, newWireToolCall(item.Name, item.Arguments))
	case item.Type == "function_call_output":
		r.Messages = append(r.Messages, message{Role: "tool", Content: item.Output, ToolCallID: item.CallID})
	case item.Type == "reasoning":
		r.reply().ReasoningContent += string(item.Content)
	case item.Role == "assistant":
		r.reply().Content += item.Content
	case item.Role == "developer":
		r.Messages = append(r.Messages, message{Role: "system", Content: item.Content})
	case item.Role != "":
		r.Messages = append(r.Messages, message{Role: item.Role, Content: item.Content})
	}
}

// reply returns the assistant's message at the end of the conversation, and adds one if there is none.
func (r *request) reply() *message {
	if n := len(r.Messages); n == 0 || r.Messages[n-1].Role != "assistant" {
		r.Messages = append(r.Messages, message{Role: "assistant"})
	}

	return &r.Messages[len(r.Messages)-1]
}

// wholeResponse is the reply as an object of the Responses API, in vLLM's form.
func (c *call) wholeResponse(tokens []token) map[string]any {
	status, details := "completed", any(nil)
	if c.scene.reply.finish == "length" {
		status, details = "incomplete", map[string]any{"reason": "max_output_tokens"}
	}

	in, out := len(c.prompt), c.scene.reply.tokens

	body := map[string]any{
		"id":                  "resp_" + c.id,
		"object":              "response",
		"created_at":          c.created.Unix(),
		"status":              status,
		"model":               c.req.Model,
		"output":              c.responseItems(tokens),
		"error":               nil,
		"incomplete_details":  details,
		"parallel_tool_calls": true,
		"usage": map[string]any{
			"input_tokens":          in,
			"output_tokens":         out,
			"total_tokens":          in + out,
			"input_tokens_details":  map[string]int{"cached_tokens": 0},
			"output_tokens_details": map[string]int{"reasoning_tokens": 0},
		},
	}
	if c.req.ReturnTokenIDs {
		body["input_messages"] = rawMessages(c.prompt)
		body["output_messages"] = rawMessages(idsOf(tokens))
	}

	return body
}

// responseItems returns the parts of the reply. As in vLLM, the text has the logprobs of all sampled tokens.
func (c *call) responseItems(tokens []token) []map[string]any {
	rep, items := c.scene.reply, []map[string]any{}
	if rep.reasoning != "" {
		items = append(items, map[string]any{
			"type": "reasoning", "id": "rs_" + c.id, "summary": []any{}, "status": "completed",
			"content": []any{map[string]any{"type": "reasoning_text", "text": rep.reasoning}},
		})
	}

	if rep.text != "" || len(rep.calls) == 0 {
		text := map[string]any{"type": "output_text", "text": rep.text, "annotations": []any{}}
		if c.req.Logprobs {
			text["logprobs"] = json.RawMessage(c.appendEntries(nil, tokens))
		}

		items = append(items, map[string]any{
			"type":    "message",
			"id":      "msg_" + c.id,
			"role":    "assistant",
			"status":  "completed",
			"content": []any{text},
		})
	}

	for i, k := range rep.calls {
		items = append(items, map[string]any{
			"type":      "function_call",
			"id":        fmt.Sprintf("fc_%s_%d", c.id, i),
			"call_id":   c.callID(i),
			"name":      k.name,
			"arguments": k.arguments,
			"status":    "completed",
		})
	}

	return items
}

func rawMessages(ids []int32) []any {
	return []any{map[string]any{"message": "", "tokens": ids, "type": "raw_message_tokens"}}
}

// responseEvents is the reply as a stream: each part whole in one piece.
func (c *call) responseEvents(tokens []token) []event {
	whole := c.wholeResponse(tokens)
	begun := map[string]any{
		"id":     whole["id"],
		"object": "response",
		"status": "in_progress",
		"model":  c.req.Model,
		"output": []any{},
		"usage":  nil,
	}
	events := []event{
		{"response.created", map[string]any{"response": begun}},
		{"response.in_progress", map[string]any{"response": begun}},
	}

	for i, item := range c.responseItems(tokens) {
		at := func(kind string, more map[string]any) {
			more["output_index"] = i
			events = append(events, event{kind, more})
		}
		at("response.output_item.added", map[string]any{"item": unfinished(item)})

		switch item["type"] {
		case "message":
			where := map[string]any{
				"item_id":       item["id"],
				"content_index": 0,
				"delta":         c.scene.reply.text,
				"logprobs":      []any{},
			}
			at("response.output_text.delta", where)
		case "function_call":
			at("response.function_call_arguments.delta", map[string]any{
				"item_id": item["id"],
				"delta":   item["arguments"],
			})
		}

		at("response.output_item.done", map[string]any{"item": item})
	}

	events = append(events, event{"response." + whole["status"].(string), map[string]any{"response": whole}})
	for i := range events {
		events[i].data["type"], events[i].data["sequence_number"] = events[i].kind, i
	}

	return events
}

// unfinished is an item at its start.
func unfinished(item map[string]any) map[string]any {
	begun := map[string]any{"status": "in_progress"}

	for _, key := range []string{"type", "id", "role", "call_id", "name"} {
		if v, ok := item[key]; ok {
			begun[key] = v
		}
	}

	switch item["type"] {
	case "message":
		begun["content"] = []any{}
	case "function_call":
		begun["arguments"] = ""
	case "reasoning":
		begun["summary"], begun["content"] = []any{}, []any{}
	}

	return begun
}
