package responses

import (
	"encoding/json"
	"slices"
	"strconv"

	"github.com/rolloutd/rolloutd/internal/gateway/dialect/chat"
)

type response struct {
	ID         string          `json:"id"`
	Object     string          `json:"object"`
	Created    int64           `json:"created_at"`
	Status     string          `json:"status"`
	Error      *string         `json:"error"`
	Incomplete *incomplete     `json:"incomplete_details"`
	Prompt     *string         `json:"instructions"`
	Metadata   struct{}        `json:"metadata"`
	Model      string          `json:"model"`
	Output     []any           `json:"output"`
	Parallel   bool            `json:"parallel_tool_calls"`
	Heat       *float64        `json:"temperature"`
	Choice     string          `json:"tool_choice"`
	Tools      []any           `json:"tools"`
	TopP       *float64        `json:"top_p"`
	Text       json.RawMessage `json:"text"`
	Usage      usage           `json:"usage"`
}

type incomplete struct {
	Reason string `json:"reason"`
}

type usage struct {
	Input    int64            `json:"input_tokens"`
	InputBy  map[string]int64 `json:"input_tokens_details"`
	Output   int64            `json:"output_tokens"`
	OutputBy map[string]int64 `json:"output_tokens_details"`
	Total    int64            `json:"total_tokens"`
}

type messageItem struct {
	ID      string `json:"id"`
	Type    string `json:"type"`
	Status  string `json:"status"`
	Role    string `json:"role"`
	Content []any  `json:"content"`
}

type textPart struct {
	Type        string `json:"type"`
	Text        string `json:"text"`
	Annotations []any  `json:"annotations"`
	Logprobs    []any  `json:"logprobs"`
}

type refusalPart struct {
	Type    string `json:"type"`
	Refusal string `json:"refusal"`
}

type reasoningItem struct {
	ID        string        `json:"id"`
	Type      string        `json:"type"`
	Status    string        `json:"status"`
	Summary   []any         `json:"summary"`
	Content   []thoughtPart `json:"content"`
	Encrypted string        `json:"encrypted_content"`
}

type thoughtPart struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

type callItem struct {
	ID        string  `json:"id"`
	Type      string  `json:"type"`
	Status    string  `json:"status"`
	CallID    string  `json:"call_id"`
	Name      string  `json:"name"`
	Arguments *string `json:"arguments,omitempty"`
	Input     *string `json:"input,omitempty"`
}

// reply returns a completion as a response of the model that the agent named. custom are the names of tools
// whose input is a text.
func reply(c chat.Completion, model string, custom []string) []byte {
	id := c.Short()

	r := response{
		ID:       "resp_" + id,
		Object:   "response",
		Created:  c.Created,
		Status:   "completed",
		Model:    model,
		Output:   []any{},
		Parallel: true,
		Choice:   "auto",
		Tools:    []any{},
		Text:     json.RawMessage(`{"format":{"type":"text"}}`),
		Usage: usage{
			Input:    c.Usage.Prompt,
			InputBy:  map[string]int64{"cached_tokens": c.Usage.Cached},
			Output:   c.Usage.Completion,
			OutputBy: map[string]int64{"reasoning_tokens": c.Usage.Reasoning},
			Total:    c.Usage.Prompt + c.Usage.Completion,
		},
	}

	switch c.Finish {
	case "length":
		r.Status, r.Incomplete = "incomplete", &incomplete{"max_output_tokens"}
	case "content_filter":
		r.Status, r.Incomplete = "incomplete", &incomplete{c.Finish}
	}

	if c.Reasoning != "" {
		r.Output = append(r.Output, reasoningItem{
			"rs_" + id, "reasoning", "completed", []any{}, []thoughtPart{{"reasoning_text", c.Reasoning}},
			sealedOf(c.Reasoning),
		})
	}

	if parts := messageParts(c); parts != nil {
		r.Output = append(r.Output, messageItem{"msg_" + id, "message", "completed", "assistant", parts})
	}

	for i, call := range c.Calls {
		isCustom := slices.Contains(custom, call.Function.Name)
		r.Output = append(r.Output, callOf(call, id+"_"+strconv.Itoa(i), isCustom))
	}

	return chat.Encode(r)
}

// messageParts are the parts of the assistant's message; nil: it says nothing.
func messageParts(c chat.Completion) (parts []any) {
	if c.Text != "" {
		parts = append(parts, textPart{"output_text", c.Text, []any{}, []any{}})
	}

	if c.Refusal != "" {
		parts = append(parts, refusalPart{"refusal", c.Refusal})
	}

	return parts
}

// callOf returns a call as an item. The input of a custom tool is a text.
func callOf(call chat.ToolCall, id string, custom bool) callItem {
	item := callItem{Status: "completed", CallID: call.ID, Name: call.Function.Name}

	if custom {
		input := inputOf(call.Function.Arguments)
		item.ID, item.Type, item.Input = "ctc_"+id, "custom_tool_call", &input
	} else {
		item.ID, item.Type, item.Arguments = "fc_"+id, "function_call", &call.Function.Arguments
	}

	return item
}
